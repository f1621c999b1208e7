module github.com/coppice-dev/coppice/bench

go 1.26.0

replace github.com/coppice-dev/coppice => ../

require (
	github.com/anthdm/hollywood v1.0.5
	github.com/coppice-dev/coppice v0.0.0
	github.com/thejerf/suture/v4 v4.0.6
)

require (
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/gofrs/flock v0.13.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	modernc.org/libc v1.79.0 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.61.1 // indirect
)

require (
	github.com/DataDog/gostackparse v0.7.0 // indirect
	github.com/klauspost/cpuid/v2 v2.0.9 // indirect
	github.com/zeebo/xxh3 v1.0.2 // indirect
	golang.org/x/sys v0.49.0
	google.golang.org/protobuf v1.32.0 // indirect
)
