package redistest

import (
	"context"
	"fmt"
)

// Migrate moves the key's slot, with all keys in it, to another master, as
// redis-cli does.
func (c *Cluster) Migrate(key string, to *Server) {
	c.t.Helper()
	c.BeginMigration(key, to)()
}

// BeginMigration begins what Migrate does: the old master of the key's slot
// sends those who ask for a key it does not have on to the new one (ASK), and
// refuses commands on several keys of which it has but some (TRYAGAIN). finish
// moves the keys and then the slot.
func (c *Cluster) BeginMigration(key string, to *Server) (finish func()) {
	c.t.Helper()
	slot, from := slotOf(key), c.Owner(key)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// In this order: nobody is sent on to a master that would send him back.
	err := setSlot(ctx, to, slot, "importing", c.ids[from])
	if err == nil {
		err = setSlot(ctx, from, slot, "migrating", c.ids[to])
	}
	if err != nil {
		c.t.Fatalf("redistest: begin to migrate slot %d: %v", slot, err)
	}
	return func() {
		c.t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := moveKeys(ctx, slot, from, to)
		for _, s := range c.inform(from, to) {
			if err == nil {
				err = setSlot(ctx, s, slot, "node", c.ids[to])
			}
		}
		if err != nil {
			c.t.Fatalf("redistest: migrate slot %d: %v", slot, err)
		}
	}
}

// inform returns who is to hear that a slot has moved, in this order: the new
// master first, or for a moment nobody would have the slot. Its replicas and
// others hear it from their masters.
func (c *Cluster) inform(from, to *Server) []*Server {
	inform := []*Server{to, from}
	for _, s := range c.Masters() {
		if s != from && s != to {
			inform = append(inform, s)
		}
	}
	return inform
}

func setSlot(ctx context.Context, at *Server, slot int, state, id string) error {
	if err := at.client.Do(ctx, "cluster", "setslot", slot, state, id).Err(); err != nil {
		return fmt.Errorf("%s at %s: %w", state, at.Addr(), err)
	}
	return nil
}

// moveKeys moves what the slot holds.
func moveKeys(ctx context.Context, slot int, from, to *Server) error {
	for {
		keys, err := from.client.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		migrate := []any{"migrate", "127.0.0.1", to.port, "", 0, patience.Milliseconds(), "keys"}
		for _, key := range keys {
			migrate = append(migrate, key)
		}
		if err := from.client.Do(ctx, migrate...).Err(); err != nil {
			return err
		}
	}
}
