package ginlock_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
	"github.com/reqlock/reqlock/middleware/memlock"
)

type (
	text   string
	number uint16
	person struct{ id string }
)

func (p *person) String() string { return p.id }

func TestValue(t *testing.T) {
	tests := []struct {
		name  string
		value any
		want  string
		err   error
	}{
		{"string", "u1", "u1", nil},
		{"named string", text("u1"), "u1", nil},
		{"int", -7, "-7", nil},
		{"int64", int64(1) << 62, "4611686018427387904", nil},
		{"named uint", number(7), "7", nil},
		{"Stringer", netip.MustParseAddr("::1"), "::1", nil},
		{"pointer with String", &person{"u1"}, "u1", nil},
		{"nil", nil, "", keyfuncs.ErrMissing},
		{"nil pointer", (*person)(nil), "", keyfuncs.ErrMissing},
		{"empty string", "", "", keyfuncs.ErrMissing},
		{"empty Stringer", &person{}, "", keyfuncs.ErrMissing},
		{"bool", true, "", keyfuncs.ErrMalformed},
		{"float", 1.5, "", keyfuncs.ErrMalformed},
		{"struct", person{"u1"}, "", keyfuncs.ErrMalformed},
		{"slice", []string{"u1"}, "", keyfuncs.ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := gin.CreateTestContext(httptest.NewRecorder())
			c.Request = request(t, http.MethodPost, "/", "")
			c.Set("user", tt.value)
			got, err := ginlock.Value("user")(ginlock.Request(c))
			assert.ErrorIs(t, err, tt.err)
			assert.Equal(t, tt.want, got)
			if tt.err != nil {
				assert.ErrorContains(t, err, `gin value "user"`)
			}
		})
	}
}

func TestValueThatNobodySet(t *testing.T) {
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = request(t, http.MethodPost, "/", "")
	type other struct{}
	for range 2 {
		_, err := ginlock.Value("user")(ginlock.Request(c))
		require.ErrorIs(t, err, keyfuncs.ErrMissing)
		c.Set(other{}, "not a name") // second round: something else is set
	}
}

func TestValueOutsideOfGin(t *testing.T) {
	r := request(t, http.MethodPost, "/", "")
	_, err := ginlock.Value("user")(r)
	require.ErrorContains(t, err, `ginlock: value "user"`)
	assert.NotErrorIs(t, err, keyfuncs.ErrMissing)
	assert.NotErrorIs(t, err, keyfuncs.ErrMalformed)

	g, err := middleware.NewGuard(memlock.New(), ginlock.Value("user"))
	require.NoError(t, err)
	w := httptest.NewRecorder()
	g.Serve(w, r, http.NotFoundHandler())
	assert.Equal(t, http.StatusInternalServerError, w.Code)
}

// What Request returns outlives the pooled context, and leaves the request it
// was made from alone.
func TestRequestIsACopy(t *testing.T) {
	router := gin.New()
	var kept []*http.Request
	router.POST("/:id", func(c *gin.Context) { c.Set("user", c.Param("id")) }, func(c *gin.Context) {
		kept = append(kept, ginlock.Request(c))
		c.Set("user", "another")
		assert.Empty(t, c.Request.PathValue("id"))
	})
	for _, path := range []string{"/a", "/b", "/c"} {
		router.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodPost, path, ""))
	}
	for i, want := range []string{"a", "b", "c"} {
		got, err := ginlock.Value("user")(kept[i])
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, want, kept[i].PathValue("id"))
	}
}

// A ServeMux further out keeps the path values it has set.
func TestRequestBehindServeMux(t *testing.T) {
	router := gin.New()
	router.POST("/:tenant/:id", func(c *gin.Context) {
		r := ginlock.Request(c)
		assert.Equal(t, "t1", r.PathValue("tenant"))
		assert.Equal(t, "7", r.PathValue("id"))
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /outer/{id}/", func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/outer/o1", router).ServeHTTP(w, r)
		assert.Equal(t, "o1", r.PathValue("id"))
		assert.Empty(t, r.PathValue("tenant"))
	})
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, request(t, http.MethodPost, "/outer/o1/t1/7", ""))
	assert.Equal(t, http.StatusOK, w.Code)
}
