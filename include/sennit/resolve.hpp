/* SPDX-License-Identifier: MIT */
/*
 * Names and addresses (resolve.h).
 *
 *	for (const sn_resolved_address &at : sn::resolve("example.org", "https", 5s).value())
 *		std::cout << sn::to_address(at) << '\n';
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_RESOLVE_HPP
#define SENNIT_RESOLVE_HPP

#include <sennit/address.hpp>
#include <sennit/resolve.h>
#include <sennit/time.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace sennit
{

namespace detail
{

/* A list that the C interface gave, as a range that owns it. */
template <class List, class Item, const Item *List::*items, void (*free_list)(List *)>
class owned_list
{
public:
	using value_type = Item;
	using const_iterator = const Item *;

	owned_list() = default;
	explicit owned_list(List *owned) noexcept : list_(owned) {}

	/* The items are constant, and valid as long as this object owns the list. */
	const Item *data() const noexcept { return list_ ? list_.get()->*items : nullptr; }
	std::size_t size() const noexcept { return list_ ? list_->count : 0; }
	bool empty() const noexcept { return size() == 0; }
	const Item *begin() const noexcept { return data(); }
	const Item *end() const noexcept { return data() + size(); }
	const Item &operator[](std::size_t i) const noexcept { return data()[i]; }
	const Item &front() const noexcept { return data()[0]; }

	/* For calls of the C interface; it still belongs to this object. NULL when empty. */
	List *get() const noexcept { return list_.get(); }

private:
	struct deleter {
		void operator()(List *list) const noexcept { free_list(list); }
	};

	std::unique_ptr<List, deleter> list_;
};

} // namespace detail

/*
 * The addresses of a name, in the order in which they should be tried: a range of
 * sn_resolved_address with size(), begin(), operator[] and the like, which owns them. Movable. It
 * has at least one, unless it was default constructed or moved from.
 */
class resolved : public detail::owned_list<sn_resolved, sn_resolved_address,
					   &sn_resolved::addresses, sn_resolved_free>
{
public:
	using owned_list::owned_list;
};

/* The hosts of a service, in the order in which they should be tried: likewise a range, of
 * sn_srv. */
class srv_list
    : public detail::owned_list<sn_srv_list, sn_srv, &sn_srv_list::records, sn_srv_list_free>
{
public:
	using owned_list::owned_list;
};

/* Looks up the addresses of a host; flags: SN_RESOLVE_IPV4 and so on. May park. */
inline result<resolved> resolve(const std::string &host, const std::string &service,
				time_limit until = no_deadline, unsigned flags = 0)
{
	if (!detail::lacks_zeros(host, service))
		return unexpected(detail::zero_inside);
	sn_resolved *found = nullptr;
	const int err =
		sn_resolve(&found, host.c_str(), service.c_str(), flags, detail::to_ns(until));
	if (err < 0)
		return detail::failed(err);
	return resolved(found);
}

/* An address of resolve() as a value. resolve() gives only addresses of IPv4 and IPv6. */
inline address to_address(const sn_resolved_address &at)
{
	return address::from(reinterpret_cast<const sockaddr *>(&at.address), at.length).value();
}

/* Looks up the name of an address. May park. */
inline result<std::string> resolve_name(const sockaddr *address, socklen_t length,
					time_limit until = no_deadline)
{
	char name[SN_NAME_MAX];
	const int size = sn_resolve_name(name, sizeof name, address, length, detail::to_ns(until));
	if (size < 0)
		return detail::failed(size);
	return std::string(name, static_cast<std::size_t>(size));
}

/* The same for an address of sn::resolve(). May park. */
inline result<std::string> resolve_name(const sn_resolved_address &at,
					time_limit until = no_deadline)
{
	return resolve_name(reinterpret_cast<const sockaddr *>(&at.address), at.length, until);
}

/* Looks up the hosts of a service, such as "_xmpp-client._tcp.example.org". May park. */
inline result<srv_list> resolve_srv(const std::string &name, time_limit until = no_deadline)
{
	if (!detail::lacks_zeros(name))
		return unexpected(detail::zero_inside);
	sn_srv_list *found = nullptr;
	const int err = sn_resolve_srv(&found, name.c_str(), detail::to_ns(until));
	if (err < 0)
		return detail::failed(err);
	return srv_list(found);
}

} // namespace sennit

#endif
