package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Some servers refuse a user, and some proxies everybody, what the Locker asks of
// them. What it can't do without fails the call, and the one BackendFailed names
// what to allow. What it can do without costs something, and the operator is told
// once what.

// neededRights are what nothing works without.
const neededRights = "EVAL, EVALSHA, the commands in the scripts and the keys that begin with the prefix, by a proxy as well: see the comment of package redislock"

// vainFor is how long subscriptions fail, while scripts are run, before that is taken
// for a proxy that does not know them and does not say so.
const vainFor = 2 * time.Second

// forbidden finds what Redis says to a user who may not run a command, also inside
// a script, and what it or a proxy says where nobody may.
func forbidden(err error) bool {
	return is[redis.Error](err) && saysForbidden(err.Error())
}

func saysForbidden(text string) bool {
	text = strings.ToLower(text)
	for _, part := range []string{"noperm", "the user executing the script can't", "acl failure in script", "unknown command", "unknown redis command"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// infoRefused is what the operator reads where err says that INFO is refused.
func infoRefused(err error) error {
	return fmt.Errorf("INFO: %w: a restart that loses the locks goes unnoticed, and a key can then have two holders; allow INFO", err)
}

// errUnpublished is what stands before the reason why scripts may not publish.
var errUnpublished = errors.New("PUBLISH in scripts")

// check asks whether grants could be published to the inbox. Without an answer it
// is believed that they can.
func (i *inbox) check() error {
	numsub, publish, err := i.rights()
	switch {
	case err != nil:
		return nil
	case saysForbidden(publish):
		return fmt.Errorf("%w: %s", errUnpublished, publish)
	case saysForbidden(numsub):
		i.numsubRefused.Do(func() {
			i.server.health.degraded(fmt.Errorf("PUBSUB NUMSUB in scripts: %s: a lock can be given to a process that died waiting, and stays held for its TTL; allow PUBSUB", numsub))
		})
	}
	return nil
}

// rights runs rights.lua.
func (i *inbox) rights() (numsub, publish string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	reply, err := i.server.askClient.Eval(ctx, source("rights.lua"), nil, i.channel).StringSlice()
	if err != nil || len(reply) != 2 {
		return "", "", errors.Join(err, errors.New("rights script makes no sense"))
	}
	return reply[0], reply[1], nil
}

// refusal returns what the operator is to read where err means that the inbox is
// not to be had, and nil where it may be had at any moment.
func (i *inbox) refusal(err error, vain attempts) error {
	switch {
	case errors.Is(err, errUnpublished):
	case forbidden(err):
		err = fmt.Errorf("SUBSCRIBE: %w", err)
	case vain.long() && !i.locker.isClosed() && i.scriptsRun():
		err = fmt.Errorf("SUBSCRIBE fails, while scripts are run: %w", err)
	default:
		return nil
	}
	return fmt.Errorf("%w: who waits for another process asks every 5 to 500 ms instead of being told; allow SUBSCRIBE, and PUBLISH in scripts, on the channels %sinbox:*", err, i.locker.prefix)
}

func (i *inbox) scriptsRun() bool {
	_, _, err := i.rights()
	return err == nil
}

// attempts are those to subscribe that have failed one after the other although the
// server was there.
type attempts struct{ since time.Time }

// note notes one that failed. subscribed says that it had succeeded before.
func (a *attempts) note(began time.Time, err error, subscribed bool) {
	switch {
	case subscribed, failure(err) == unsent, failure(err) == unlooked:
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = began
	}
}

func (a *attempts) long() bool { return !a.since.IsZero() && time.Since(a.since) >= vainFor }
