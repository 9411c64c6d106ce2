package redislock

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var files embed.FS

// source reads a script, and what it includes: a line "-- include NAME" stands for
// the file of that name.
func source(name string) string {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // they are embedded
	}
	var b strings.Builder
	for line := range strings.Lines(string(content)) {
		if included, ok := strings.CutPrefix(line, "-- include "); ok {
			line = source(strings.TrimSpace(included))
		}
		b.WriteString(line)
	}
	return b.String()
}

// A kind is what a server is part of.
type kind int

const (
	alone kind = iota // or with replicas
	inCluster
	inQuorum
)

// scripts are those that one server runs.
type scripts struct {
	acquire, extend, leave, interrupt script
	agree                             script // in a quorum
	sign                              script // see probe
}

func (s *scripts) init(k kind) {
	has := fmt.Sprintf("local in_cluster = %t\n", k == inCluster)
	if k == inQuorum {
		s.acquire.init(has+source("quorum_acquire.lua"), 5)
		s.agree.init(source("quorum_agree.lua"), 5)
		s.extend.init(source("quorum_extend.lua"), 4)
		s.leave.init(has+source("quorum_leave.lua"), 5)
	} else {
		s.acquire.init(has+source("acquire.lua"), 5)
		s.extend.init(source("extend.lua"), 3)
		s.leave.init(has+source("leave.lua"), 5)
	}
	s.interrupt.init(source("interrupt.lua"), 2)
	s.sign.init("return 1", 0)
}

// A script is run by its hash once the server knows it, and sent whole where it
// does not: a flushed script cache is one more round trip and no error. It does
// what redis.Script does without a wasted first round trip, and with half of
// the allocations, on the path of every request.
type script struct {
	source, hash any // strings, boxed once
	keys         any // how many of the arguments are keys, an int
	known        atomic.Bool
}

func (s *script) init(source string, keys int) {
	sum := sha1.Sum([]byte(source))
	s.source, s.hash, s.keys = source, hex.EncodeToString(sum[:]), keys
}

// run runs one command.
func run(ctx context.Context, client commander, c command) (any, error) {
	known := c.script.known.Load()
	if !known {
		c.whole()
	}
	reply, err := send(ctx, client, c)
	if known && unknownScript(err) {
		c.whole()
		reply, err = send(ctx, client, c)
	}
	if err == nil && !known {
		c.script.known.Store(true)
	}
	return reply, err
}

// runAll runs commands of one script, at least one, in one trip, and returns them
// with their replies or errors. A script that is not known is sent once: the server
// knows it from then on, and carries out the rest after that.
func runAll(ctx context.Context, client commander, commands []command) []*redis.Cmd {
	known := commands[0].script.known.Load()
	if !known {
		commands[0].whole()
	}
	cmds := sendAll(ctx, client, commands)
	if cmds[0].Err() == nil && !known {
		commands[0].script.known.Store(true)
	}
	for resend(ctx, client, commands, cmds) {
		// Scripts may be flushed at any moment, also between two of these.
	}
	return cmds
}

// resend sends those again whose script was not known, and says whether there were
// any. The first of them is carried out, since it has the script with it.
func resend(ctx context.Context, client commander, commands []command, cmds []*redis.Cmd) bool {
	var again []command
	for i, cmd := range cmds {
		if unknownScript(cmd.Err()) {
			again = append(again, commands[i])
		}
	}
	if len(again) == 0 {
		return false
	}
	again[0].whole()
	replies := sendAll(ctx, client, again)
	for i, cmd := range cmds {
		if unknownScript(cmd.Err()) {
			cmds[i], replies = replies[0], replies[1:]
		}
	}
	return true
}

func unknownScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

func send(ctx context.Context, client commander, c command) (any, error) {
	cmd := redis.NewCmd(ctx, c.args...)
	if err := client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

func sendAll(ctx context.Context, client commander, commands []command) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(commands))
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, c := range commands {
			cmds[i] = redis.NewCmd(ctx, c.args...)
			_ = p.Process(ctx, cmds[i])
		}
		return nil
	})
	// Each command has its own error, but for a hook that has not let them through.
	if err != nil && !slices.ContainsFunc(cmds, func(c *redis.Cmd) bool { return c.Err() != nil }) {
		for _, c := range cmds {
			c.SetErr(err)
		}
	}
	return cmds
}

func integer(fields []any, i int) int64 {
	if i >= len(fields) {
		return 0
	}
	n, _ := fields[i].(int64)
	return n
}

// millis rounds up, so that a lease in Redis outlasts the one that we count on.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
