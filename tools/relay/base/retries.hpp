/* SPDX-License-Identifier: MIT */
/*
 * When a look at files that fails for lack of something is tried again. Looks come every few
 * seconds, and an attempt may be expensive, so that attempts become rarer while they fail: after 1
 * look, 2, 4, and so on up to 32. Changed files are tried immediately. One thread at a time.
 */
#ifndef RELAY_RETRIES_HPP
#define RELAY_RETRIES_HPP

#include <algorithm>

namespace relay
{

class retries
{
public:
	/* Called once at each look: whether to try. */
	bool is_due() noexcept
	{
		if (left_ > 0)
			left_--;
		return left_ == 0;
	}

	/* After an attempt that failed. Returns true the first time since reset(). */
	bool fail() noexcept
	{
		const bool is_first = pause_ == 0;
		pause_ = is_first ? 1 : std::min(2 * pause_, most_looks);
		left_ = pause_;
		return is_first;
	}

	/* After a success, or if the files are others than those that failed. */
	void reset() noexcept { pause_ = left_ = 0; }

	bool is_failing() const noexcept { return pause_ > 0; }

private:
	static constexpr int most_looks = 32;

	int pause_ = 0; /* in looks; 0 while nothing has failed */
	int left_ = 0;  /* looks until the next attempt */
};

} // namespace relay

#endif
