/* SPDX-License-Identifier: MIT */
#include "sessions/udp_port.hpp"

#include "sessions/udp_session.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <utility>

namespace relay
{
namespace
{

std::uint64_t random_word()
{
	std::random_device random;
	return std::uint64_t{random()} << 32 | random();
}

/* splitmix64's finalizer. */
std::uint64_t mix_word(std::uint64_t x) noexcept
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9U;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebU;
	return x ^ (x >> 31);
}

bool is_wildcard(const sn::address &at) noexcept
{
	return std::ranges::all_of(at.bytes, [](auto byte) { return byte == 0; });
}

} // namespace

/* Each step mixes in the key again, so that intermediate values stay secret. */
std::size_t udp_key_hash::operator()(const udp_key &of) const noexcept
{
	static const std::uint64_t key = random_word();
	static_assert(sizeof(sn_address) == 24);
	std::array<std::uint64_t, 6> words;
	std::memcpy(&words[0], static_cast<const sn_address *>(&of.client), 24);
	std::memcpy(&words[3], static_cast<const sn_address *>(&of.local), 24);
	std::uint64_t hash = key;
	for (const std::uint64_t word : words)
		hash = mix_word(hash ^ word) + key;
	return static_cast<std::size_t>(hash);
}

udp_port::udp_port(shared &process, sn::udp opened)
    : all(process), socket(std::move(opened)), bound(socket.local().value_or(sn::address())),
      has_every_address(is_wildcard(bound))
{
	all.udp_addresses.add(bound);
}

udp_port::~udp_port()
{
	all.udp_addresses.remove(bound);
}

std::shared_ptr<udp_session> udp_port::find(const udp_key &key, std::int64_t now) noexcept
{
	const std::lock_guard lock(lock_);
	const auto at = sessions_.find(key);
	if (at == sessions_.end())
		return nullptr;
	at->second->asked(now);
	return at->second;
}

void udp_port::add(const std::shared_ptr<udp_session> &one)
{
	std::shared_ptr<udp_session> before; /* released after the lock */
	const std::lock_guard lock(lock_);
	auto &place = sessions_[one->key()];
	before = std::exchange(place, one);
	size_.store(sessions_.size());
}

void udp_port::erase(const udp_session &one) noexcept
{
	const auto at = sessions_.find(one.key());
	if (at == sessions_.end() || at->second.get() != &one)
		return;
	sessions_.erase(at); /* not the last reference: the caller has one */
	size_.store(sessions_.size());
	if (!is(phase::open) && sessions_.empty())
		wake();
}

void udp_port::remove(const udp_session &one) noexcept
{
	const std::lock_guard lock(lock_);
	erase(one);
}

bool udp_port::end_if_over(udp_session &one, std::int64_t now) noexcept
{
	const std::lock_guard lock(lock_);
	return one.end_if_over(now);
}

void udp_port::enter(phase next) noexcept
{
	const std::lock_guard lock(lock_);
	if (is(phase::given_up))
		return;
	phase_.store(next);
	if (is_over())
		wake();
}

void udp_port::stop() noexcept
{
	enter(phase::retiring);
	const std::lock_guard lock(lock_);
	is_stopping_.store(true);
	for (const auto &each : sessions_)
		each.second->look_again();
}

} // namespace relay
