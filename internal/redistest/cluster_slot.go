package redistest

import (
	"strconv"
	"strings"
)

// slots is the number of a cluster's hash slots.
const slots = 1 << 14

// slotOf returns the slot of a key: that of the part in the first braces, if
// there is something in them, or else of the whole.
func slotOf(key string) int {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % slots
}

// crc16 is CRC-16/XMODEM.
func crc16(s string) uint16 {
	var crc uint16
	for _, b := range []byte(s) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&(1<<15) != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// keyIn returns a key, the prefix and a number, with a slot that will do, or ""
// if there is none: a prefix with braces has but one slot.
func keyIn(prefix string, willDo func(slot int) bool) string {
	for i := range 100 * slots {
		if key := prefix + strconv.Itoa(i); willDo(slotOf(key)) {
			return key
		}
	}
	return ""
}
