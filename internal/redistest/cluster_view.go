package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A view is the cluster as one node sees it, by the nodes' ids. Views differ
// while news travels.
type view map[string]node

// A node is one line of CLUSTER NODES.
type node struct {
	id        string
	self      bool   // it is the node whose view this is
	master    string // id of a replica's master
	epoch     int64  // of a master's configuration: where two claim a slot, the later has it
	connected bool
	slots     [][2]int // from and to
}

// owner returns the master of the slot, the zero node if there is none.
func (v view) owner(slot int) (owner node) {
	for _, n := range v {
		for _, r := range n.slots {
			if r[0] <= slot && slot <= r[1] && n.epoch >= owner.epoch {
				owner = n
			}
		}
	}
	return owner
}

// views returns the views of the nodes that answer.
func (c *Cluster) views() map[*Server]view {
	return askAll(c.servers, func(ctx context.Context, client *redis.Client) (view, error) {
		text, err := client.ClusterNodes(ctx).Result()
		if err != nil {
			return nil, err
		}
		return parseView(text)
	})
}

// now returns the cluster as it is: what each node says of itself, and of one
// that is silent what others do.
func (c *Cluster) now() view {
	now := make(view)
	for _, v := range c.views() {
		for id, n := range v {
			if old := now[id]; n.self || !old.self && n.epoch >= old.epoch {
				now[id] = n
			}
		}
	}
	return now
}

// server returns the server that is this node, nil for the zero node.
func (c *Cluster) server(n node) *Server {
	for s, id := range c.ids {
		if id == n.id {
			return s
		}
	}
	return nil
}

// parseView reads lines such as
//
//	07c3… 127.0.0.1:11003@21003 myself,master - 0 1426238317239 4 connected 0-99 103 [104->-e7d1…]
//
// where the last is a slot that is being moved.
func parseView(text string) (view, error) {
	v := make(view)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("malformed line %q", line)
		}
		n := node{
			id:        f[0],
			self:      strings.HasPrefix(f[2], "myself"),
			connected: f[7] == "connected",
		}
		if f[3] != "-" {
			n.master = f[3]
		}
		var err error
		if n.epoch, err = strconv.ParseInt(f[6], 10, 64); err != nil {
			return nil, fmt.Errorf("malformed line %q", line)
		}
		for _, r := range f[8:] {
			if strings.HasPrefix(r, "[") {
				continue
			}
			from, to, isRange := strings.Cut(r, "-")
			if !isRange {
				to = from
			}
			a, err := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if err != nil || err2 != nil {
				return nil, fmt.Errorf("malformed line %q", line)
			}
			n.slots = append(n.slots, [2]int{a, b})
		}
		v[n.id] = n
	}
	return v, nil
}
