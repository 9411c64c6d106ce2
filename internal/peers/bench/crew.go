package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// A crew is the workers of one run of a scenario: this program, in processes of
// their own.
type crew struct {
	workers []*exec.Cmd
	inputs  []io.WriteCloser
	events  chan event
	readers sync.WaitGroup
	leave   context.CancelFunc // lets the readers go on when nobody takes events
}

// An event is a message of one worker.
type event struct {
	from int
	message
	err error // the worker has ended
}

// hire starts a worker for each task and returns when all of them are ready.
// They are killed when ctx is done, and end by themselves when this process does.
func hire(ctx context.Context, tasks ...task) (*crew, error) {
	reading, leave := context.WithCancel(ctx)
	c := &crew{events: make(chan event), leave: leave}
	for i, t := range tasks {
		if err := c.start(ctx, reading, i, t); err != nil {
			return nil, errors.Join(fmt.Errorf("start a worker: %w", err), c.close())
		}
	}
	for range tasks {
		if _, err := c.next(ctx, "ready"); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *crew) start(ctx, reading context.Context, i int, t task) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, workerFlag, string(raw))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.workers, c.inputs = append(c.workers, cmd), append(c.inputs, in)
	c.readers.Go(func() {
		for decoder, err := json.NewDecoder(out), error(nil); err == nil; {
			e := event{from: i}
			err = decoder.Decode(&e.message)
			e.err = err
			select {
			case c.events <- e:
			case <-reading.Done():
			}
		}
	})
	return nil
}

// tell sends a word to one worker. One that can't hear it has ended: next says so.
func (c *crew) tell(worker int, word string) { _, _ = io.WriteString(c.inputs[worker], word+"\n") }

// next returns the next event, which must be one of those that are expected.
func (c *crew) next(ctx context.Context, expected ...string) (event, error) {
	select {
	case e := <-c.events:
		if e.err != nil {
			return e, fmt.Errorf("a worker has ended: %w", e.err)
		}
		for _, is := range expected {
			if e.Is == is {
				return e, nil
			}
		}
		return e, fmt.Errorf("a worker says %q, expected was one of %q", e.Is, expected)
	case <-ctx.Done():
		return event{}, context.Cause(ctx)
	}
}

// reports waits for those of all workers.
func (c *crew) reports(ctx context.Context) ([]report, error) {
	all := make([]report, len(c.workers))
	for range all {
		e, err := c.next(ctx, "report")
		if err != nil {
			return nil, err
		}
		all[e.from] = e.Report
	}
	return all, nil
}

// close ends the workers and waits for them.
func (c *crew) close() error {
	c.leave()
	for _, in := range c.inputs {
		_ = in.Close()
	}
	c.readers.Wait()
	var errs []error
	for _, cmd := range c.workers {
		if err := cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("worker: %w", err))
		}
	}
	return errors.Join(errs...)
}
