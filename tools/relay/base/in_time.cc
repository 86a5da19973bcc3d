/* SPDX-License-Identifier: MIT */
#include "base/in_time.hpp"

#include <atomic>

namespace relay
{
namespace
{

/* More than there are kinds of such calls, so that one path that hangs does not keep others from
 * being read. */
constexpr std::size_t calls_most = 32;

std::atomic<std::size_t> calls{0};

} // namespace

void (*refuse_call)() = nullptr;

std::size_t calls_left_behind() noexcept
{
	return calls.load();
}

call_in_thread::call_in_thread() noexcept
{
	calls.fetch_add(1);
}

call_in_thread::~call_in_thread()
{
	calls.fetch_sub(1);
}

bool call_in_thread::is_allowed() noexcept
{
	return calls.load() < calls_most;
}

} // namespace relay
