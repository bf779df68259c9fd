package journal

// Add opens a file.
func (j *Journal) Add(path string) error {
	f, err := j.opts.OpenFile(path)
	if err != nil {
		return err
	}
	j.AddFile(f)
	return nil
}
