/* SPDX-License-Identifier: MIT */
/*
 * The names under which the admin server answers (the Host of a request). This prevents DNS
 * rebinding: a web page can make its own name resolve to an address of this machine, and read the
 * server's answers through the user's browser. The Host of such a request is the page's own name,
 * which is not one of these.
 *
 * An IP address is always accepted, because no name is involved, and so is localhost. Names match
 * in any case and with a final dot; "*.example.org" is every name that ends in ".example.org". The
 * port does not matter.
 */
#ifndef RELAY_HOST_NAMES_HPP
#define RELAY_HOST_NAMES_HPP

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

class host_names
{
public:
	host_names() = default;
	/* names: the configured ones. The host of the address at which the server listens is
	 * added. */
	host_names(const std::vector<std::string> &names, std::string_view listen);

	/* Whether requests with this Host are accepted. host: the field's value; empty: there
	 * was none. */
	bool accept(std::string_view host) const;

private:
	std::vector<std::string> names_; /* in lower case; "*.a" as ".a" */
};

/* What is wrong with a name of the configured list; nothing if it is a name, or "*." and a name. */
std::optional<std::string> host_name_problem(std::string_view name);

/* Whether a listener at this address has every address of the machine. */
bool is_everywhere(std::string_view listen) noexcept;

} // namespace relay

#endif
