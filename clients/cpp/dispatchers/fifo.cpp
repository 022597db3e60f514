// Strict first come, first served with first fit: the first job that does not fit stops the round.
//
//     parley run SCENARIO -- clients/cpp/build/parley-fifo

#include "parley/parley.hpp"

namespace {

void first_come_first_served(parley::View& view) {
    while (const parley::Job* head = view.queue().head()) {
        if (!view.start(*head)) break;
    }
}

}  // namespace

int main(int count, char** arguments) {
    // It does nothing while no pending job could start, so it need not be asked then.
    return parley::program("parley-fifo", count, arguments, first_come_first_served,
                           parley::Ask::actionable);
}
