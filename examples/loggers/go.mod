module github.com/tidemark-log/tidemark/examples/loggers

go 1.26.8

require (
	github.com/klauspost/compress v1.20.4
	github.com/rs/zerolog v1.35.1
	github.com/tidemark-log/tidemark v0.0.0
	go.uber.org/zap v1.28.0
)

require (
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/tidemark-log/tidemark => ../../
