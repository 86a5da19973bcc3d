/* SPDX-License-Identifier: MIT */
#include "config/config_limits.hpp"

#include "config/keepalive.hpp"

#include <chrono>
#include <cstdint>

namespace relay
{
namespace
{

/* The kernel's limit for TCP_KEEPCNT. */
constexpr std::uint32_t most_probes = 127;

void read_seconds(section &in, std::string_view key, std::chrono::seconds &into, bool may_be_none)
{
	std::chrono::nanoseconds read{};
	const auto written = in.duration(key, read);
	if (!written)
		return;
	const auto time = to_keepalive(read);
	if (time || (may_be_none && read.count() == 0))
		into = time.value_or(std::chrono::seconds(0));
	else
		in.complain(*in.take(key), key,
			    '"' + *written +
				    "\" is not supported; expected whole seconds, 1s to 9h" +
				    (may_be_none ? ", or 0 for none" : ""));
}

/* A shorter timeout would end a connection for one lost packet; a longer one limits nothing. */
void read_user_timeout(section &in, std::chrono::milliseconds &into)
{
	using namespace std::chrono_literals;

	std::chrono::nanoseconds read{};
	const auto written = in.duration("user_timeout", read);
	if (written && read.count() != 0 && (read < 1s || read > 24h))
		in.complain(*in.take("user_timeout"), "user_timeout",
			    '"' + *written +
				    "\" is out of range; expected 1s to 24h, or 0 for none");
	else if (written)
		into = std::chrono::floor<std::chrono::milliseconds>(read);
}

} // namespace

void read_keepalive(complaints &to, section &in, keepalive_config &into)
{
	const auto *node = in.take("keepalive");
	if (const auto *table = node ? node->as_table() : nullptr) {
		section each(to, *table, in.path("keepalive"));
		read_seconds(each, "idle", into.idle, true);
		read_seconds(each, "interval", into.interval, false);
		each.count("count", into.count, most_probes, 1);
		each.finish();
	} else if (node && !node->is_string() && !node->is_integer()) {
		in.mistyped(*node, "keepalive", "a duration, such as \"1m\", or a table");
	} else {
		read_seconds(in, "keepalive", into.idle, true);
	}
	read_user_timeout(in, into.user_timeout);
}

namespace
{

/* A lower bandwidth is a mistake, and would move in chunks of a second; a higher one limits
 * nothing. */
constexpr std::uint64_t least_bandwidth = std::uint64_t{1} << 10;
constexpr std::uint64_t most_bandwidth = std::uint64_t{1} << 40;

} // namespace

void read_bandwidth(complaints &to, section &in, std::string_view key, bandwidth_config &into)
{
	const auto read = [](section &from, std::string_view name, std::uint64_t &value) {
		return from.size(name, value, least_bandwidth, most_bandwidth,
				 "1KiB to 1TiB, or no such key for no limit");
	};
	const auto *node = in.take(key);
	if (!node)
		return;
	const auto *table = node->as_table();
	if (!table) {
		if (node->is_string() || node->is_integer()) {
			if (read(in, key, into.to_backend))
				into.to_client = into.to_backend;
		} else {
			in.mistyped(*node, key, "a number of bytes, such as \"10MiB\", or a table");
		}
		return;
	}
	section both(to, *table, in.path(key));
	read(both, "to_backend", into.to_backend);
	read(both, "to_client", into.to_client);
	both.size("burst", into.burst, least_bandwidth, most_bandwidth, "1KiB to 1TiB");
	if (!both.take("to_backend") && !both.take("to_client"))
		in.complain(*node, key, "limits nothing; expected to_backend, to_client or both");
	both.finish();
}

} // namespace relay
