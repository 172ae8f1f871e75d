package extproc

// responseTrailers ends the answer.
func (x *exchange) responseTrailers() error {
	err := x.neutral()
	if x.response != ended {
		x.response, x.answered = ended, true
		x.close()
	}
	return err
}
