package web

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// ingestPath is where entries come in; all its answers have one form.
const ingestPath = "/ingest"

// pingPath is where the access log can be tried out.
const pingPath = "/ping"

// uploadPath is where the journals of other machines come in.
const uploadPath = "/upload"

// routes is what is where. Every path says itself which method it wants.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ingestPath, s.ingest)
	mux.HandleFunc(ingestPath, s.notPost)
	if s.cfg.Uploads != nil {
		mux.HandleFunc("POST "+uploadPath, s.upload)
		mux.HandleFunc(uploadPath, s.notUpload)
	}
	for path, page := range map[string]http.Handler{
		pingPath: text("PONG"), "/healthz": text("ok"), "/readyz": http.HandlerFunc(s.ready), "/metrics": s.metrics(),
	} {
		mux.Handle("GET "+path, page) // and HEAD
		mux.HandleFunc(path, notGet)
	}
	mux.Handle("GET /{$}", text(pages))
	mux.HandleFunc("/{$}", notGet)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not here; "+pages, http.StatusNotFound) })
	return mux
}

// pages is the answer at /.
const pages = "tidemark: POST JSON lines to /ingest?ack=appended|synced, journals to /upload; GET /ping, /healthz, /readyz, /metrics"

// refuse answers a request that reaches no page, in the form of the answers of
// the path it was meant for.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if r.URL.Path == ingestPath {
		s.reply(w, answer{}, &refusal{status: status, err: errors.New(text)})
		return
	}
	if r.URL.Path == uploadPath {
		s.replyUpload(w, r, answer{}, &refusal{status: status, err: errors.New(text)})
		return
	}
	http.Error(w, text, status)
}

// foreignOrigin answers what a browser sends for the page of another site.
func (s *Server) foreignOrigin(w http.ResponseWriter, r *http.Request) {
	s.counts.badOrigin.Add(1)
	s.refuse(w, r, http.StatusForbidden, "a page of another site may not send here: use a program that is no browser, such as curl")
}

// notPost answers other methods at /ingest.
func (s *Server) notPost(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	s.reply(w, answer{}, &refusal{status: http.StatusMethodNotAllowed, err: fmt.Errorf("%s is not for this path, POST sends lines: %s", method(r), curlLine(r))})
}

// notGet answers other methods at the pages.
func notGet(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodGet+", "+http.MethodHead)
	http.Error(w, fmt.Sprintf("%s is not for this page: curl %s", method(r), curlTarget(r, r.URL.Path)), http.StatusMethodNotAllowed)
}

// method is the request's, unless it is a long one.
func method(r *http.Request) string {
	if len(r.Method) > 20 {
		return r.Method[:20] + "…"
	}
	return r.Method
}

// curlLine is the command that sends a file of lines.
func curlLine(r *http.Request) string {
	return "curl -H 'Content-Type: application/x-ndjson' --data-binary @FILE " + curlTarget(r, ingestPath)
}

// curlTarget is a path at the request's own address, as curl takes it.
func curlTarget(r *http.Request, path string) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
		return "--unix-socket " + addr.String() + " http://localhost" + path
	}
	if !localHost(r.Host) {
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			return "http://" + addr.String() + path
		}
		return "http://127.0.0.1" + path
	}
	return "http://" + r.Host + path
}

// text answers with one line.
func text(line string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, line+"\n") //nolint:errcheck // the client may have gone
	}
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Ready != nil {
		if err := s.cfg.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	text("ready")(w, r)
}

// localHost reports whether a Host header names this machine in a way that no
// name server can have given it: an address or localhost.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil
}
