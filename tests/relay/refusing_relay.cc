// SPDX-License-Identifier: MIT
/*
 * The relay of refusal_test.cc: it gets no thread, or no memory for one, as long as the file named
 * by RELAY_TEST_REFUSES contains "thread" or "memory".
 */
#include "base/in_time.hpp"

#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <system_error>

namespace
{

void refuse()
{
	const char *const name = std::getenv("RELAY_TEST_REFUSES");
	std::string what;
	if (name)
		std::ifstream(name) >> what;
	if (what == "thread")
		throw std::system_error(
			std::make_error_code(std::errc::resource_unavailable_try_again));
	if (what == "memory")
		throw std::bad_alloc();
}

[[maybe_unused]] const bool is_set = [] {
	relay::refuse_call = refuse;
	return true;
}();

} // namespace
