package store

import (
	"errors"
	"strconv"

	"github.com/tidemark-log/tidemark/entry"
)

// Message ids of tidemark's own entries.
const (
	msgRotated    = "8b3c1f5a0e7d4c5f9a51d7e6a0c4b2f1"
	msgUnclean    = "b7a50c2e4f6d4b0fa2c91e3d5f708a6b"
	msgSetAside   = "5d0e9a7c1b3f4e62b8f4a6c2d9e1073f"
	msgRemoved    = "e1f6b0d8a2c9435e8d7b3f50c6a9124d"
	msgSpaceAgain = "3c7e5b1f9d2a4806b6e0c8f4a1d3957e"
	msgReadBack   = "c4b81e6f27d94a53b0e5f19d7a3c6082"
	msgStore      = "9f2d6a4c8e0b4173a5c1f7e9b3d05862"
)

// maxPending bounds the own entries that wait for room.
const maxPending = 64

// event is an entry of tidemark's own.
type event struct {
	priority int
	id       string
	text     string
}

// Event stores an entry of tidemark's own, _TRANSPORT=driver, and says its text
// to the operator. It never waits: an event that finds no room is stored later.
// fields are added as they are.
func (s *Store) Event(priority int, msgID, text string, fields ...entry.Field) {
	s.say(text)
	if s.store(event{priority, msgID, text}, fields) != nil {
		s.later(event{priority, msgID, text})
	}
}

func (s *Store) changed() {
	if s.cfg.Changed != nil {
		s.cfg.Changed()
	}
}

func (s *Store) say(line string) {
	if s.cfg.Say != nil {
		s.cfg.Say(line)
	}
}

// store appends an event to the system file if there is room.
func (s *Store) store(e event, more []entry.Field) error {
	fields := []entry.Field{
		entry.Field("MESSAGE=" + e.text),
		entry.Field("PRIORITY=" + strconv.Itoa(e.priority)),
		entry.Field("SYSLOG_FACILITY=3"),
		entry.Field("SYSLOG_IDENTIFIER=tidemark"),
	}
	if e.id != "" {
		fields = append(fields, entry.Field("MESSAGE_ID="+e.id))
	}
	fields = append(fields, more...)
	fields = append(fields, entry.Field("_TRANSPORT=driver"))
	fields = append(fields, s.cfg.Self...)
	// A sync that the news of a failed one asks for would fail like it.
	urgent := e.priority <= 2 && e.id != msgSetAside
	_, err := s.TryAppend([]entry.Entry{{Fields: fields, Urgent: urgent}})
	return err
}

// later keeps an event until there is room for it.
func (s *Store) later(e event) {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	if len(s.pending) >= maxPending {
		s.counts.lostEvents.Add(1)
		return
	}
	s.pending = append(s.pending, e)
}

// tellPending stores the events that have waited, in their order. It returns false
// when there was no room for all.
func (s *Store) tellPending() bool {
	s.tellMu.Lock()
	defer s.tellMu.Unlock()
	for {
		s.eventMu.Lock()
		if len(s.pending) == 0 {
			s.eventMu.Unlock()
			return true
		}
		e := s.pending[0]
		s.eventMu.Unlock()
		if err := s.store(e, nil); err != nil && !errors.Is(err, ErrClosed) {
			return false
		}
		s.eventMu.Lock()
		s.pending = s.pending[1:]
		s.eventMu.Unlock()
	}
}
