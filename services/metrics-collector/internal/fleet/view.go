package fleet

import "time"

// View is the table that this collector announces, and its own part of it. It is
// immutable.
type View struct {
	// Members are ascending by id.
	Members []Member
	// Changed is when the table came to be: see the package's comment.
	Changed time.Time
	// Owned are the positions of the members that this collector scrapes, ascending.
	Owned []int
	// Collectors is the number of live collectors, this one included.
	Collectors int

	owners []string // by position
}

// Member is an endpoint in the table.
type Member struct {
	ID     ID
	Target *Target
	// Details are as the operator has said, else as the endpoint itself has.
	Details Details
}

func (m *Member) equal(o *Member) bool {
	return m.ID == o.ID && m.Details.Equal(o.Details) && (m.Target == o.Target || m.Target.Equal(o.Target))
}

// sameTable says whether both views announce the same.
func (v *View) sameTable(o *View) bool {
	if len(v.Members) != len(o.Members) {
		return false
	}
	for i := range v.Members {
		if !v.Members[i].equal(&o.Members[i]) {
			return false
		}
	}
	return true
}

// sameIDs says whether a peer's table has the same members.
func (v *View) sameIDs(p *peer) bool {
	if len(p.table) != len(v.Members) {
		return false
	}
	for i := range v.Members {
		if _, ok := p.table[v.Members[i].ID]; !ok {
			return false
		}
	}
	return true
}
