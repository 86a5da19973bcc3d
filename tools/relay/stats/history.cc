/* SPDX-License-Identifier: MIT */
#include "stats/history.hpp"

#include <exception>
#include <string_view>
#include <utility>

namespace relay
{
namespace
{

using column = std::pair<std::string_view, std::uint64_t history_sample::*>;

constexpr std::array columns = {
	column{"uptime_ms", &history_sample::uptime_ms},
	column{"active", &history_sample::active},
	column{"queued", &history_sample::queued},
	column{"accepted", &history_sample::accepted},
	column{"failed", &history_sample::failed},
	column{"to_backend", &history_sample::to_backend},
	column{"to_client", &history_sample::to_client},
	column{"connect_p99_us", &history_sample::connect_p99_us},
};

} // namespace

void history::add(const history_sample &now) noexcept
try {
	const std::lock_guard guard(lock_);
	if (ring_.capacity() < most)
		ring_.reserve(most);
	if (ring_.size() < most) {
		ring_.push_back(now);
	} else {
		ring_[oldest_] = now;
		oldest_ = (oldest_ + 1) % most;
	}
} catch (const std::exception &) {
	/* There is no memory; later samples try again. */
}

std::vector<history_sample> history::since(std::uint64_t uptime_ms) const
{
	std::vector<history_sample> found;
	found.reserve(most); /* not under the lock */
	const std::lock_guard guard(lock_);
	for (std::size_t i = 0; i < ring_.size(); i++) {
		const auto &each = ring_[(oldest_ + i) % ring_.size()];
		if (uptime_ms == 0 || each.uptime_ms > uptime_ms)
			found.push_back(each);
	}
	return found;
}

std::string to_json(const std::vector<history_sample> &samples)
{
	std::string out;
	out.reserve(64 + samples.size() * 72);
	char before = '{';
	for (const auto &[name, field] : columns) {
		out += before;
		out.append("\"").append(name).append("\":[");
		bool first = true;
		for (const auto &each : samples) {
			if (!first)
				out += ',';
			first = false;
			out += std::to_string(each.*field);
		}
		out += ']';
		before = ',';
	}
	out += "}\n";
	return out;
}

} // namespace relay
