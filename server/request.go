package server

// The parts of requests that several operations have. They are exported because huma reads only
// what is.
type (
	// A RunIn names a run in a path.
	RunIn struct {
		ID string `path:"id" maxLength:"512" doc:"a run ID or a workflow ID"`
	}
	// A ScheduleIn names a schedule in a path.
	ScheduleIn struct {
		Name string `path:"name" maxLength:"255" doc:"the name of a schedule"`
	}
	// A WorkflowIn names a workflow in a path.
	WorkflowIn struct {
		Name string `path:"name" maxLength:"255" doc:"the name of a workflow"`
	}
	// A SettingIn names a setting in a path.
	SettingIn struct {
		Name string `path:"name" maxLength:"255" doc:"a name, or - for the default"`
	}
	// A PageIn selects a page of a list.
	PageIn struct {
		Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"the longest page"`
		Cursor string `query:"cursor" maxLength:"200" doc:"next of the page before"`
	}
	// A ReasonIn has the reason of an action that has no body for it.
	ReasonIn struct {
		Reason string `query:"reason" maxLength:"255" doc:"why, for the record"`
	}
)

// A Note is the reason of an action.
type Note struct {
	Reason string `json:"reason,omitempty" maxLength:"255"`
}

// reason returns the reason of a note; empty if there is no note.
func (n *Note) reason() string {
	if n == nil {
		return ""
	}
	return n.Reason
}
