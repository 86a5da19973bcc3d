// SPDX-License-Identifier: MIT
//
// Random numbers from a seed (splitmix64). Also generates streams of bytes.
#ifndef SENNIT_TESTS_HOSTILE_RANDOM_HPP
#define SENNIT_TESTS_HOSTILE_RANDOM_HPP

#include <cstddef>
#include <cstdint>

namespace hostile
{

class Random
{
public:
	explicit Random(uint64_t seed) : state_(seed) {}

	uint64_t next()
	{
		uint64_t z = state_ += 0x9e3779b97f4a7c15;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
		return z ^ (z >> 31);
	}
	// From 0 to n - 1.
	uint64_t below(uint64_t n) { return next() % n; }
	int64_t between(int64_t low, int64_t high)
	{
		return low + (int64_t)below((uint64_t)(high - low + 1));
	}
	bool one_in(uint64_t n) { return below(n) == 0; }

	template <class T>
	void shuffle(T *items, size_t n)
	{
		for (size_t i = n; i > 1; i--) {
			const size_t j = below(i);
			const T item = items[i - 1];

			items[i - 1] = items[j];
			items[j] = item;
		}
	}

private:
	uint64_t state_;
};

} // namespace hostile

#endif
