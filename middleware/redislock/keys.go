package redislock

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Keys longer than this many bytes are hashed.
const maxKey = 128

// names are the Redis keys that belong to one key of the user.
type names struct{ lock, fence, tombstones, queue, entries, interrupt string }

// namesOf puts the user's key, and nothing else, into a hash tag, so that all
// its names live in one slot of a Cluster. What stands in the tag is one to one
// with the user's key and has no braces of its own: see tag.
func namesOf(prefix, key string) names {
	const suffixes = ":lock:fence:tombstones:queue:entries:interrupt"
	tag := tag(key)
	// One string that all are cut from: a lock needs them on every request.
	var b strings.Builder
	b.Grow(6*(len(prefix)+len("{}")+len(tag)) + len(suffixes))
	cut := func(suffix string) string {
		from := b.Len()
		for _, s := range [...]string{prefix, "{", tag, "}", suffix} {
			b.WriteString(s)
		}
		return b.String()[from:]
	}
	return names{
		lock: cut(":lock"), fence: cut(":fence"), tombstones: cut(":tombstones"),
		queue: cut(":queue"), entries: cut(":entries"), interrupt: cut(":interrupt"),
	}
}

// tag escapes braces and the escape sign itself, and hashes what is long. A
// hash starts with "%s", which no escaped key does.
func tag(key string) string {
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		return "%sha256:" + hex.EncodeToString(sum[:])
	}
	if !strings.ContainsAny(key, "{}%") {
		return key
	}
	return escaper.Replace(key)
}

var escaper = strings.NewReplacer("{", "%7B", "}", "%7D", "%", "%25")
