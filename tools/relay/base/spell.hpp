/* SPDX-License-Identifier: MIT */
/*
 * A spell of trouble, which is reported once. Troubles that come less than `quiet` apart are one
 * spell.
 *
 * While connections come and go at a limit, there is room for one of them every few milliseconds,
 * and the next one has none. A spell that ended as soon as there was room would begin again for
 * each client.
 *
 * One task uses it at a time. Times are those of sn_now(), in nanoseconds.
 */
#ifndef RELAY_SPELL_HPP
#define RELAY_SPELL_HPP

#include <cstdint>
#include <optional>

namespace relay
{

class spell
{
public:
	static constexpr std::int64_t quiet = 10'000'000'000;

	/* There is trouble now. Returns true if a spell begins with it. */
	bool begins(std::int64_t now) noexcept
	{
		const bool is_first = !last_ || now - *last_ >= quiet;
		last_ = now;
		return is_first;
	}

	/* The trouble that begins() has noted has lasted until now. */
	void goes_on(std::int64_t now) noexcept { last_ = now; }

private:
	std::optional<std::int64_t> last_;
};

} // namespace relay

#endif
