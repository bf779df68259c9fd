package control

import (
	"context"
	"strings"
	"testing"
)

// waitingDaemon tells when a command begins to wait, and when it is given up.
type waitingDaemon struct {
	fakeDaemon
	begun, ended chan struct{}
}

func (d *waitingDaemon) Synchronize(ctx context.Context) error {
	d.begun <- struct{}{}
	<-ctx.Done()
	d.ended <- struct{}{}
	return ctx.Err()
}

const syncCall = `{"method":"io.systemd.Journal.Synchronize"}`

// A call ends when its client hangs up, also when it has sent further calls.
func TestHangUpEndsTheCall(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		d := &waitingDaemon{begun: make(chan struct{}), ended: make(chan struct{})}
		path := start(t, d, Limits{ConnsPerUID: 8, Threads: l.Threads}) // a call gives its place back just after its end
		for _, calls := range [][]string{{syncCall}, {syncCall, `{"method":"a.B"}`}, {syncCall}} {
			c := dial(t, path)
			c.say(t, calls...)
			<-d.begun
			c.Close()
			<-d.ended
		}
	})
}

// A client that has ended its own side only still gets its reply.
func TestHalfClosedIsAnswered(t *testing.T) {
	eachWire(t, func(t *testing.T, l Limits) {
		d := &fakeDaemon{gate: make(chan struct{})}
		c := dial(t, start(t, d, l))
		c.say(t, syncCall)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		close(d.gate)
		if got := c.hear(); got != `{"parameters":{}}` {
			t.Errorf("heard %s", got)
		}
	})
}

// Commands that wait for the disk leave room for others.
func TestSlowCallsLeaveRoom(t *testing.T) {
	d := &waitingDaemon{begun: make(chan struct{}), ended: make(chan struct{}, 2)}
	path := start(t, d, Limits{ConnsPerUID: 4})
	for range 2 {
		dial(t, path).say(t, syncCall)
		<-d.begun
	}
	c := dial(t, path)
	c.say(t, syncCall, `{"method":"dev.tidemark.Log.Status"}`)
	if got := c.hear(); !strings.Contains(got, `"errno":16`) {
		t.Errorf("a third command: %s, want EBUSY", got)
	}
	if got := c.hear(); !strings.Contains(got, `"1.2"`) {
		t.Errorf("status: %s", got)
	}
}
