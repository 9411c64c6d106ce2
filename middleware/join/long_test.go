package join_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Clients that are about as fast as each other get all of a response, of which only a
// small part is kept.
func TestEqualClientsGetAllOfALongResponse(t *testing.T) {
	const size, clients = 32 << 20, 8
	var there, everyone sync.WaitGroup // have the first bytes; have ended
	there.Add(clients)
	p := make([]byte, 32<<10)
	do := loopback(t, joining()(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range size / len(p) {
			_, err := w.Write(p)
			assert.NoError(t, err)
			if i == 0 {
				assert.NoError(t, http.NewResponseController(w).Flush())
				there.Wait()
			}
		}
	})))
	for range clients {
		everyone.Go(func() {
			got := 0
			do(func(n int) {
				if got == 0 {
					there.Done()
				}
				got += n
			})
			assert.Equal(t, size, got)
		})
	}
	everyone.Wait()
}
