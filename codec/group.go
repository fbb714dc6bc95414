package codec

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure/store"
)

// commit calls do with the encoded group, and copies the verdicts back. Otherwise the group stays
// as it is, so that it can be sent again.
func (s *wrapped) commit(g *store.Group, do func(*store.Group) error) error {
	encoded := *g
	encoded.Changes = slices.Clone(g.Changes)
	for i := range encoded.Changes {
		if err := s.encodeChange(&encoded.Changes[i]); err != nil {
			return err
		}
	}
	if err := do(&encoded); err != nil {
		return err
	}
	g.Grants = encoded.Grants
	for i := range g.Changes {
		c, told := &g.Changes[i], &encoded.Changes[i]
		c.Verdict, c.Found = told.Verdict, told.Found
		s.decodeHead(&c.Found)
		s.answerPosts(c.Posts, told.Posts)
		s.answerPosts(c.Else, told.Else)
	}
	return nil
}

// answerPosts copies the verdicts on posts.
func (s *wrapped) answerPosts(posts, told []store.Post) {
	for i := range posts {
		p := &posts[i]
		p.Verdict, p.To, p.Number = told[i].Verdict, told[i].To, told[i].Number
		s.decodeHead(&p.To)
	}
}

// encodeChange replaces what is encoded of a change. The asks are shared with the change that it is
// a copy of: the store sets their answers there.
func (s *wrapped) encodeChange(c *store.Change) (err error) {
	if c.Head, err = s.encodeHead(c.Head); err != nil {
		return err
	}
	c.Entries = slices.Clone(c.Entries)
	for i := range c.Entries {
		if err := s.encode(&c.Entries[i], false); err != nil {
			return err
		}
	}
	for _, posts := range []*[]store.Post{&c.Posts, &c.Else} {
		*posts = slices.Clone(*posts)
		for i := range *posts {
			if err := s.encode(&(*posts)[i].Message, true); err != nil {
				return err
			}
		}
	}
	c.Settings = slices.Clone(c.Settings)
	for i := range c.Settings {
		if err := s.encodeSetting(&c.Settings[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *wrapped) encodeSetting(t *store.Setting) (err error) {
	if t.Value != nil {
		t.Value, err = s.codec.Encode(t.Value, s.settingPlace(t))
	}
	if err != nil {
		return fmt.Errorf("codec: the setting %q of kind %q was not encoded: %w", t.Name, t.Kind,
			err)
	}
	return nil
}

// decodeInfo decodes the settings of a description.
func (s *wrapped) decodeInfo(info *store.Info) error {
	for i := range info.Settings {
		t := &info.Settings[i]
		if t.Value == nil {
			continue
		}
		value, err := s.codec.Decode(t.Value, s.settingPlace(t))
		if err != nil {
			return fmt.Errorf("%w: %q of kind %q: %w", store.ErrEncoded, t.Name, t.Kind, err)
		}
		if t.Value = value; value == nil {
			t.Value = []byte{}
		}
	}
	return nil
}

// decodeClaimed decodes what a claim has returned, but for the outbox.
func (s *wrapped) decodeClaimed(c *store.Claimed) {
	for _, runs := range [][]store.Run{c.Runs, c.Mail} {
		for i := range runs {
			s.decodeRun(&runs[i])
		}
	}
}

// decodeOutbox decodes entries of the outbox, and leaves out those that are not readable.
func (s *wrapped) decodeOutbox(entries []store.OutboxEntry) []store.OutboxEntry {
	kept := entries[:0]
	for _, o := range entries {
		if s.decode(&o.Entry, false) == nil {
			s.decodeHead(&o.Head)
			kept = append(kept, o)
		}
	}
	return kept
}
