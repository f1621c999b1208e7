module github.com/coppice-dev/coppice/bench

go 1.26.0

replace github.com/coppice-dev/coppice => ../

require (
	github.com/anthdm/hollywood v1.0.5
	github.com/coppice-dev/coppice v0.0.0
	github.com/thejerf/suture/v4 v4.0.6
)

require (
	github.com/DataDog/gostackparse v0.7.0 // indirect
	github.com/klauspost/cpuid/v2 v2.0.9 // indirect
	github.com/zeebo/xxh3 v1.0.2 // indirect
	golang.org/x/sys v0.49.0
	google.golang.org/protobuf v1.32.0 // indirect
)
