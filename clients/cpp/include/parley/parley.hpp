// All of the library: a view to decide by, policies, the loop that talks to the server.
#pragma once

#include "parley/easy.hpp"
#include "parley/errors.hpp"
#include "parley/policy.hpp"
#include "parley/program.hpp"
#include "parley/serve.hpp"
#include "parley/view.hpp"
