module github.com/tidemark-log/tidemark/bench

go 1.26
