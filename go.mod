module github.com/coppice-dev/coppice

go 1.26

require github.com/pelletier/go-toml/v2 v2.4.3

require (
	github.com/google/go-cmp v0.7.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
