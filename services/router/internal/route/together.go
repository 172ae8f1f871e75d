package route

// together returns the primary result's reservation; if other profiles reserved too,
// one whose end is theirs as well, so that nobody has to know of them.
func together(primary *ProfileResult, all []*ProfileResult) Reservation {
	var others []*ProfileResult
	for _, r := range all {
		if r != primary && r.Reservation != nil {
			others = append(others, r)
		}
	}
	if len(others) == 0 || primary.Reservation == nil {
		return primary.Reservation
	}
	return &bundle{primary.Reservation, others}
}

// bundle is the reservations of one request on several endpoints.
type bundle struct {
	Reservation
	others []*ProfileResult
}

// FirstToken ends those of stages: without them there would be no token.
func (b *bundle) FirstToken() {
	b.Reservation.FirstToken()
	for _, o := range b.others {
		if o.Work == WorkPrefill || o.Work == WorkEncode {
			o.Reservation.Finish(true, NoUsage())
		}
	}
}

// Finish ends all of them; usage is the primary's.
func (b *bundle) Finish(completed bool, u Usage) {
	b.Reservation.Finish(completed, u)
	for _, o := range b.others {
		o.Reservation.Finish(completed, NoUsage())
	}
}
