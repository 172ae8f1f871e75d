package epconfig

// Sections returns the top-level fields besides the two constant lines.
func Sections() []string { return sectionNames() }
