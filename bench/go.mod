module github.com/tidemark-log/tidemark/bench

go 1.26.8

require (
	github.com/tidemark-log/tidemark v0.0.0
	go.uber.org/zap v1.28.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/dchest/siphash v1.2.3 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/ulikunitz/xz v0.5.17 // indirect
	go.uber.org/multierr v1.10.0 // indirect
)

replace github.com/tidemark-log/tidemark => ../
