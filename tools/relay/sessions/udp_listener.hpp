/* SPDX-License-Identifier: MIT */
/*
 * A listener of UDP: a socket, and the task that receives from it, several datagrams at a time, and
 * passes each on in its client's session (udp_session.hpp). A datagram of a client without a
 * session begins one if the lists and limits allow it; they are checked in the same order as for
 * connections (listener.hpp). If they do not, the datagram is dropped and counted, because its
 * sender cannot be notified.
 *
 * The table is bounded by the process's number of sessions (sessions.hpp). When that is reached, or
 * descriptors or ports run out, existing sessions continue, and datagrams of new clients are
 * dropped until sessions have ended. One event reports this. A lack of ports or descriptors is
 * followed by a pause (udp_pause.hpp).
 *
 * One task receives, so that the order of a client's datagrams is kept. It never waits for a
 * backend or for room to send to one.
 *
 * Where the group depends on the server name (`sni`), a client must begin with QUIC's hello, which
 * is read first (quic_hello.hpp). Its datagrams are kept until the hello is complete, and then
 * passed on unchanged; the session keeps that group. A datagram that is not QUIC, or not the
 * beginning of a connection, goes to `group`, or is dropped if there is none. 0-RTT that has
 * overtaken the hello is dropped, because a session in `group` would take the hello as well; the
 * client sends it again. Rejected: keeping it for the hello, for anybody can send it, and most that
 * comes without a hello has lost its session. A client of another QUIC version gets an answer that
 * offers version 1, so that it asks again.
 *
 * A reload gives a listener that stays another route, which applies from the next client on. A
 * listener that is removed serves its sessions until they have ended, and then closes the socket.
 * While the relay stops it does the same.
 *
 * After a handover the new process receives, and the old one's sessions only answer. A client that
 * sends more begins a session in the new process. Rejected: passing the datagrams of old sessions
 * back to the old process. The new process would have to know the old one's clients for as long as
 * that lives; and a socket that gets every datagram of a client (SO_REUSEPORT, or one connected to
 * each client) loses the datagrams that arrive while it is made.
 */
#ifndef RELAY_UDP_LISTENER_HPP
#define RELAY_UDP_LISTENER_HPP

#include "base/spell.hpp"
#include "sessions/listening.hpp"
#include "sessions/session.hpp"
#include "sessions/udp_pause.hpp"
#include "sessions/udp_pending.hpp"
#include "sessions/udp_port.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace relay
{

class udp_listener final : public listening
{
public:
	/* Opens the socket, in which datagrams queue. On failure, why has the reason. May park. */
	static std::unique_ptr<udp_listener> open(shared &all, const listener_config &settings,
						  std::string &why);

	/* The same with the socket of another listener, which gives it up later. */
	static std::unique_ptr<udp_listener> share(shared &all, const listener_config &settings,
						   const listening &of, std::string &why);

	~udp_listener() override;

	const std::string &address() const noexcept override { return address_; }
	handed_listener to_hand_over() const override;
	bool serves(const listener_config &settings) const override;
	void use(std::shared_ptr<route> via) noexcept override;
	void use_lists(std::shared_ptr<const listener_config> read) noexcept override;
	void start() override;
	void let_in() noexcept override { entrance_.open(); }
	void stop() noexcept override
	{
		if (!is_handed_over_)
			port_->stop();
		entrance_.open();
	}
	void retire() noexcept override
	{
		port_->enter(udp_port::phase::retiring);
		entrance_.open();
	}
	void give_up() noexcept override
	{
		port_->enter(udp_port::phase::given_up);
		entrance_.open();
	}
	void hand_over() noexcept override
	{
		is_handed_over_ = true;
		give_up();
	}
	bool retired() const noexcept override
	{
		return closed_.load(std::memory_order_acquire) && !lingers();
	}
	bool lingers() const noexcept override { return !port_->is_empty(); }

	/* Does not wait for a task that still serves sessions; the destructor does. */
	void close() override;

private:
	udp_listener(shared &all, const listener_config &settings, std::shared_ptr<udp_port> port);
	static std::unique_ptr<udp_listener> make(shared &all, const listener_config &settings,
						  sn::udp socket);
	std::shared_ptr<route> via();
	void serve();
	void count_dropped();
	void take(const sn::udp_message &message);
	void begin(const udp_key &key, std::string_view datagram);
	void read_hello(const std::shared_ptr<route> &via, const udp_key &key,
			std::string_view datagram);
	void answer_version(const udp_key &key, std::string_view datagram);
	struct first_datagrams {
		const std::vector<std::string> &kept;
		std::string_view last;
	};
	void begin_session(const std::shared_ptr<route> &via, pool *to, const udp_key &key,
			   const first_datagrams &first, const std::string &sni);
	void try_session(const std::shared_ptr<route> &via, pool &to, const udp_key &key,
			 const first_datagrams &first, const std::string &sni);
	void watch_time(bool is_woken);
	std::optional<udp_drop> deny(const route &via, const udp_key &key);
	std::optional<udp_drop> refuse(const route &via, const udp_key &key, bool is_new,
				       source_ticket &counted);
	std::shared_ptr<udp_session> open_session(const std::shared_ptr<route> &via, pool &to,
						  const udp_key &key, const std::string &sni,
						  bool is_new, udp_drop &why);
	udp_drop pause();
	void tell_shortage();

	shared &all_;
	const std::shared_ptr<udp_port> port_;
	const std::string address_;
	const std::string asked_name_;
	const std::string asked_address_;
	const std::string task_name_;
	std::mutex lock_; /* guards via_ */
	std::shared_ptr<route> via_;
	std::atomic<bool> ends_{false};
	std::atomic<bool> closed_{false};
	bool is_started_ = false;
	bool is_handed_over_ = false;
	entrance entrance_;
	sn::task<void> receiving_;
	/* Only the listener's task uses these, once it is started. */
	std::unique_ptr<char[]> buffers_; /* of the batch */
	std::vector<sn::udp_message> batch_;
	udp_pending pending_;
	std::int64_t watched_ = INT64_MAX; /* the deadline of receiving */
	spell no_room_;                    /* a lack of room for sessions */
	udp_pause pause_;                  /* after a lack of ports or descriptors */
	std::uint64_t dropped_before_ = 0; /* the socket's drops at the last count */
};

} // namespace relay

#endif
