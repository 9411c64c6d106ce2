package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Call is one command as MONITOR shows it.
type Call struct {
	At     time.Time // by the server's clock, to the microsecond
	DB     int
	Client string   // host:port, or "lua" inside a script
	Args   []string // the command as it was sent, and its arguments
}

// Name returns the command in lower case.
func (c Call) Name() string { return strings.ToLower(c.Args[0]) }

// InScript reports whether a script called the command, not a client.
func (c Call) InScript() bool { return c.Client == "lua" }

// String returns the call as one line.
func (c Call) String() string { return fmt.Sprintf("[%d %s] %q", c.DB, c.Client, c.Args) }

// Calls are commands in the order in which they were carried out. A script's
// own calls follow the eval, evalsha or fcall that ran it.
type Calls []Call

// TopLevel returns the calls that clients made.
func (cs Calls) TopLevel() Calls {
	return cs.filter(func(c Call) bool { return !c.InScript() })
}

// InScripts returns the calls that scripts made.
func (cs Calls) InScripts() Calls { return cs.filter(Call.InScript) }

// Named returns the calls of the commands with these names, in lower case.
func (cs Calls) Named(names ...string) Calls {
	return cs.filter(func(c Call) bool { return slices.Contains(names, c.Name()) })
}

// Names returns the name of each call.
func (cs Calls) Names() []string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = c.Name()
	}
	return names
}

func (cs Calls) filter(keep func(Call) bool) Calls {
	return slices.DeleteFunc(slices.Clone(cs), func(c Call) bool { return !keep(c) })
}

// parseCall reads a line such as
//
//	+1700000000.123456 [0 127.0.0.1:60866] "set" "a \"key\"" "\x00"
func parseCall(line string) (Call, error) {
	malformed := fmt.Errorf("malformed line %q", line)
	at, rest, ok := strings.Cut(strings.TrimPrefix(line, "+"), " [")
	if !ok {
		return Call{}, malformed
	}
	sec, micro, ok := strings.Cut(at, ".")
	s, err := strconv.ParseInt(sec, 10, 64)
	us, err2 := strconv.ParseInt(micro, 10, 64)
	if !ok || err != nil || err2 != nil {
		return Call{}, malformed
	}
	// An IPv6 address has brackets of its own.
	from, args, ok := strings.Cut(rest, `] "`)
	db, client, ok2 := strings.Cut(from, " ")
	n, err := strconv.Atoi(db)
	if !ok || !ok2 || err != nil {
		return Call{}, malformed
	}
	c := Call{At: time.UnixMicro(s*1e6 + us), DB: n, Client: client}
	for args = `"` + args; args != ""; args = strings.TrimPrefix(args, " ") {
		// Redis quotes with a subset of Go's escapes.
		q, err := strconv.QuotedPrefix(args)
		if err != nil {
			return Call{}, malformed
		}
		arg, err := strconv.Unquote(q)
		if err != nil {
			return Call{}, malformed
		}
		c.Args = append(c.Args, arg)
		args = args[len(q):]
	}
	return c, nil
}
