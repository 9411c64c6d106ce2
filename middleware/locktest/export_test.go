package locktest

// Obligations are the names of all cases.
func Obligations() []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}
