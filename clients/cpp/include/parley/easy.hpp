// EASY backfilling: whoever does not delay the first in line may start.
#pragma once

#include <optional>

#include "parley/policy.hpp"

namespace parley {

/// Start jobs in order; behind the first that does not fit, the head, start what does not delay it.
///
/// The head's shadow time is the first instant at which enough is free if all running jobs take
/// as long as estimated; all releases of one instant count together, and overdue jobs end a second
/// from now. A later job starts if it fits now and is over by then, or if the head could start
/// then beside it. Where all jobs ask for one kind of slot that is a matter of counting; else the
/// nodes at the shadow time are looked at one by one, resource by resource.
///
/// Cost: where slots are counted, the queue once, plus the running jobs up to the shadow time;
/// else the nodes and the running jobs as well, but only where a job behind the head would fit.
///
/// Source: Lifka, The ANL/IBM SP scheduling system, JSSPP 1995.
class Easy : public Policy {
public:
    void decide(View& view) override;
    void begin(View&) override { then_.reset(); }
    Ask ask() const override { return Ask::actionable; }

private:
    void backfill_slots(View& view);
    void backfill_nodes(View& view);
    /// When the head will fit on the nodes as they will be then, which are left in `then_`.
    Micros shadow_on_nodes(View& view, const Job& head);

    std::optional<Cluster> then_;
};

}  // namespace parley
