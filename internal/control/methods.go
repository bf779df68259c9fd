package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sort"
	"syscall"
)

// Names of errors as they stand in replies.
const (
	ErrorMethodNotFound    = "org.varlink.service.MethodNotFound"
	ErrorInvalidParameter  = "org.varlink.service.InvalidParameter"
	ErrorInterfaceNotFound = "org.varlink.service.InterfaceNotFound"
	ErrorPermissionDenied  = "org.varlink.service.PermissionDenied"
	// ErrorSystem tells that a command failed; its parameters are errno and
	// message.
	ErrorSystem = "io.systemd.System"
)

// Names of the methods.
const (
	MethodSynchronize   = "io.systemd.Journal.Synchronize"
	MethodRotate        = "io.systemd.Journal.Rotate"
	MethodFlushToVar    = "io.systemd.Journal.FlushToVar"
	MethodRelinquishVar = "io.systemd.Journal.RelinquishVar"
	MethodAppend        = "dev.tidemark.Log.Append"
	MethodAppendLines   = "dev.tidemark.Log.AppendLines"
	MethodStatus        = "dev.tidemark.Log.Status"
	MethodGetInfo       = "org.varlink.service.GetInfo"
	MethodGetInterface  = "org.varlink.service.GetInterfaceDescription"
)

// none is the empty object of parameters.
type none struct{}

// method is one entry of the dispatch table.
type method struct {
	name string
	// params are the names of the parameters it takes.
	params []string
	// owner: only root and the daemon's own user may call it.
	owner bool
	// slow: it may wait for the disk.
	slow bool
	run  func(*Server, context.Context, call) reply
}

// findMethod returns the method called name.
func findMethod(name string) (method, bool) {
	for _, m := range [...]method{
		{name: MethodSynchronize, params: []string{"offline"}, owner: true, slow: true, run: (*Server).synchronize},
		{name: MethodRotate, owner: true, slow: true, run: (*Server).rotate},
		{name: MethodFlushToVar, owner: true, run: (*Server).nothingToMove},
		{name: MethodRelinquishVar, owner: true, run: (*Server).nothingToMove},
		{name: MethodAppend, params: []string{"entries", "ack"}, slow: true, run: (*Server).append},
		{name: MethodAppendLines, params: []string{"lines", "data", "ack"}, run: (*Server).appendLines},
		{name: MethodStatus, run: (*Server).status},
		{name: MethodGetInfo, run: (*Server).getInfo},
		{name: MethodGetInterface, params: []string{"interface"}, run: (*Server).getInterface},
	} {
		if m.name == name {
			return m, true
		}
	}
	return method{}, false
}

// answer runs one call of the user uid, whose connection is c if there is one.
func (s *Server) answer(ctx context.Context, c *conn, uid uint32, in call) reply {
	m, ok := findMethod(in.Method)
	if !ok {
		return failure(ErrorMethodNotFound, map[string]string{"method": in.Method})
	}
	if m.owner && uid != 0 && uid != s.owner {
		return failure(ErrorPermissionDenied, none{})
	}
	names := make([]string, 0, len(in.Parameters))
	for name := range in.Parameters {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !slices.Contains(m.params, name) {
			return invalid(name)
		}
	}
	if c != nil {
		in.from = c.from
	}
	if !m.slow {
		return m.run(s, ctx, in)
	}
	if !s.beginSlow(uid) {
		return outcome(fmt.Errorf("too many commands in progress: %w", syscall.EBUSY))
	}
	defer s.endSlow(uid)
	if c != nil {
		defer c.unbind()()
		var done func()
		ctx, done = c.watch(ctx)
		defer done()
	}
	return m.run(s, ctx, in)
}

// unbind lets a call run on any thread, on which what waits for others is woken more
// cheaply. The returned function ends that.
func (c *conn) unbind() (bind func()) {
	if !c.own {
		return func() {}
	}
	runtime.UnlockOSThread()
	return runtime.LockOSThread
}

func (s *Server) synchronize(ctx context.Context, in call) reply {
	var offline *bool
	if raw, ok := in.Parameters["offline"]; ok && json.Unmarshal(raw, &offline) != nil {
		return invalid("offline")
	}
	err := s.daemon.Synchronize(ctx)
	if err == nil && offline != nil && *offline {
		err = s.daemon.Archived(ctx)
	}
	return outcome(err)
}

func (s *Server) rotate(ctx context.Context, _ call) reply {
	return outcome(s.daemon.Rotate(ctx))
}

// nothingToMove answers FlushToVar and RelinquishVar: there is one place only.
func (s *Server) nothingToMove(context.Context, call) reply {
	return reply{Parameters: none{}}
}

func (s *Server) status(context.Context, call) reply {
	st, ok := s.statuses.Get().(*keptStatus)
	if !ok {
		st = new(keptStatus)
	}
	s.daemon.Look(&st.Status)
	return reply{Parameters: st}
}

func (s *Server) getInfo(context.Context, call) reply {
	return reply{Parameters: struct {
		Vendor     string   `json:"vendor"`
		Product    string   `json:"product"`
		Version    string   `json:"version"`
		URL        string   `json:"url"`
		Interfaces []string `json:"interfaces"`
	}{s.info.Vendor, s.info.Product, s.info.Version, s.info.URL, interfaceNames()}}
}

func (s *Server) getInterface(_ context.Context, in call) reply {
	var name string
	if raw, ok := in.Parameters["interface"]; !ok || json.Unmarshal(raw, &name) != nil {
		return invalid("interface")
	}
	text, ok := describe(name)
	if !ok {
		return failure(ErrorInterfaceNotFound, map[string]string{"interface": name})
	}
	return reply{Parameters: map[string]string{"description": text}}
}

// outcome is the reply of a command without results.
func outcome(err error) reply {
	if err == nil {
		return reply{Parameters: none{}}
	}
	number := syscall.EIO
	errors.As(err, &number)
	return failure(ErrorSystem, struct {
		Errno   int    `json:"errno"`
		Message string `json:"message"`
	}{int(number), err.Error()})
}

func invalid(parameter string) reply {
	return failure(ErrorInvalidParameter, map[string]string{"parameter": parameter})
}

func failure(name string, parameters any) reply {
	return reply{Error: name, Parameters: parameters}
}
