// EASY backfilling with first fit; the rule itself is in the library, as others may build on it.
//
//     parley run SCENARIO -- clients/cpp/build/parley-easy

#include "parley/parley.hpp"

int main(int count, char** arguments) {
    return parley::program("parley-easy", count, arguments, std::make_unique<parley::Easy>());
}
