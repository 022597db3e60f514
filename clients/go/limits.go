package parley

// What a reply is made of beside its decisions: maps and arrays, and bytes at most.
const (
	replyContainers = 3
	replyBytes      = 512
	// decisionBytes is more than a decision of any kind takes without its spans and texts.
	decisionBytes = 160
	// spanBytes is more than a span takes: an array of three integers.
	spanBytes = 28
)

// withinLimits returns how many decisions one reply may hold (R-LIM-2); those behind are taken for
// refused, and may be made again at the next request.
func withinLimits(decisions []Decision, limits *Limits) int {
	most := int(min(limits.Decisions, limits.ArrayItems, int64(len(decisions))))
	containers, size := int64(replyContainers), int64(replyBytes)
	for i, decision := range decisions[:most] {
		more, bytes := costOf(decision)
		containers, size = containers+more, size+bytes
		if containers > limits.Containers || size > limits.MessageBytes {
			return i
		}
	}
	return most
}

// costOf returns the maps and arrays of a decision, and no fewer bytes than it takes.
func costOf(decision Decision) (containers, bytes int64) {
	switch decision := decision.(type) {
	case *Start:
		spans := int64(0)
		for _, group := range decision.Allocation {
			spans += int64(len(group))
		}
		groups := int64(len(decision.Allocation))
		return 2 + groups + spans, decisionBytes + 5*groups + spanBytes*spans
	case *Submit:
		packed, err := pack(nil, decision)
		if err != nil {
			return 1, decisionBytes // it is refused where it is packed to be sent
		}
		return int64(len(packed)), int64(len(packed))
	case *Reject:
		return 1, decisionBytes + int64(len(orEmpty(decision.Reason)))
	case *Hold:
		return 1, decisionBytes + int64(len(orEmpty(decision.Reason)))
	case *Stop:
		return 1, decisionBytes + int64(len(orEmpty(decision.Reason)))
	default:
		return 1, decisionBytes
	}
}

// takeBack lets a request say of the decisions that were beyond the limits that they are refused.
func (v *View) takeBack(request *DecisionRequestBody, keptBack []Decision) {
	if len(keptBack) == 0 {
		return
	}
	var atUS *int64
	for _, outcome := range request.Outcomes {
		if outcome.AtUS != nil {
			atUS = outcome.AtUS
		}
	}
	code := "limit.decisions"
	for i := range keptBack {
		request.Outcomes = append(request.Outcomes, Outcome{
			ID:     int64(len(v.sent) - len(keptBack) + i),
			Status: "rejected", Code: &code, AtUS: atUS,
		})
	}
}
