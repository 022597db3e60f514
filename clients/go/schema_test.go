package parley

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// definitions are the types of this package by what the schemas call them.
var definitions = map[string]any{
	"Hello": HelloBody{}, "Program": Program{}, "Capabilities": Capabilities{}, "Resume": Resume{},
	"Welcome": WelcomeBody{}, "Granted": Granted{}, "Limits": Limits{}, "Policy": Policy{},
	"Scenario": Scenario{}, "Rules": WorkloadRules{}, "Platform": Platform{}, "NodeGroup": NodeGroup{},
	"DecisionRequest": DecisionRequestBody{}, "StateSnapshot": StateSnapshotBody{}, "State": State{},
	"Job": JobDescription{}, "ChunkGroup": ChunkGroup{}, "RunningJob": RunningEntry{},
	"Timer": TimerEntry{}, "Outcome": Outcome{},
	"SessionStart": SessionStart{}, "JobSubmitted": JobSubmitted{}, "JobStarted": JobStarted{},
	"JobEnded": JobEnded{}, "NodeDown": NodeDown{}, "NodeUp": NodeUp{}, "TimerFired": TimerFired{},
	"WorkloadExhausted": WorkloadExhausted{}, "UnknownEvent": UnknownEvent{},
	"DecisionReply": DecisionReplyBody{}, "Start": Start{}, "Reject": Reject{}, "Kill": Kill{},
	"Requeue": Requeue{}, "Hold": Hold{}, "Release": Release{}, "Wake": Wake{},
	"WakeCancel": WakeCancel{}, "Annotate": Annotate{}, "Submit": Submit{}, "NewJob": NewJob{},
	"Stop": Stop{}, "SessionEnd": SessionEndBody{}, "Stats": Stats{}, "Error": ErrorBody{},
	"Progress": ProgressBody{}, "ProgressAck": ProgressAckBody{}, "Bye": ByeBody{},
}

// elsewhere are definitions that are no type here: bodies without a field, and what is never sent.
var elsewhere = []string{"Ready", "StateRequest", "Ping", "Pong", "Empty", "UnknownDecision"}

type definition struct {
	Properties map[string]any
	Required   []string
}

func TestEveryTypeHasTheFieldsOfItsSchema(t *testing.T) {
	var schemas struct {
		Defs map[string]definition `json:"$defs"`
	}
	fromSchemas(t, "definitions.schema.json", &schemas)
	for name, wanted := range schemas.Defs {
		if len(wanted.Properties) == 0 || slices.Contains(elsewhere, name) {
			continue
		}
		made, known := definitions[name]
		if !known {
			t.Errorf("%s is not known here", name)
			continue
		}
		compareFields(t, name, made, wanted)
	}
	for name := range definitions {
		if _, there := schemas.Defs[name]; !there {
			t.Errorf("no schema defines %s", name)
		}
	}
}

func TestTheEnvelopesHaveTheFieldsOfEveryMessage(t *testing.T) {
	var catalog struct {
		Messages map[string]struct{ Direction string }
	}
	fromSchemas(t, "catalog.json", &catalog)
	if len(catalog.Messages) == 0 {
		t.Fatal("the catalog lists no message")
	}
	for kind, message := range catalog.Messages {
		var schema definition
		fromSchemas(t, kind+".schema.json", &schema)
		var names []string
		for name := range schema.Properties {
			names = append(names, name)
		}
		envelope := any(answer{})
		if strings.HasPrefix(message.Direction, "client") {
			envelope = question{}
		}
		for _, name := range names {
			if _, known := fieldsOf(envelope)[name]; !known {
				t.Errorf("%s: no field %s is known here", kind, name)
			}
		}
	}
}

func fieldsOf(made any) map[string]bool {
	fields := map[string]bool{}
	for _, field := range planOf(reflect.TypeOf(made)).fields {
		fields[field.name] = !field.optional
	}
	return fields
}

func compareFields(t *testing.T, name string, made any, wanted definition) {
	t.Helper()
	fields := fieldsOf(made)
	for field, required := range fields {
		if _, there := wanted.Properties[field]; !there {
			t.Errorf("%s.%s is in no schema", name, field)
		}
		if required != slices.Contains(wanted.Required, field) {
			t.Errorf("%s.%s: required here is %v, in the schema it is not", name, field, required)
		}
	}
	for field := range wanted.Properties {
		if _, there := fields[field]; !there {
			t.Errorf("%s.%s is not known here", name, field)
		}
	}
}
