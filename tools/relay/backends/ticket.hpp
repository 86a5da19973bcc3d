/* SPDX-License-Identifier: MIT */
/*
 * A ticket holds a place among the connections of an endpoint until it is destroyed. It also owns
 * the ready connection to that endpoint, if one was made ahead (ready.hpp).
 */
#ifndef RELAY_TICKET_HPP
#define RELAY_TICKET_HPP

#include "backends/endpoint.hpp"
#include "backends/queue.hpp"
#include "tls/tls_context.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace relay
{

/* A connection without a client. The endpoint and the process count it as one for as long as
 * this object lives. It belongs to a ticket of that endpoint, which outlives it. */
struct ready_connection {
	ready_connection(endpoint &at, std::atomic<std::size_t> &of_process) noexcept
	    : to_(at), of_process_(of_process)
	{
		to_.counts.ready.add();
		of_process_.fetch_add(1, std::memory_order_relaxed);
	}
	ready_connection(const ready_connection &) = delete;
	ready_connection &operator=(const ready_connection &) = delete;
	~ready_connection()
	{
		connection.close();
		of_process_.fetch_sub(1, std::memory_order_relaxed);
		to_.counts.ready.subtract();
	}

	sn::tcp connection; /* none while it is being made */
	/* The context of the handshake that has been made; null: none has been. */
	std::shared_ptr<const tls_context> tls;
	sn::clock::time_point opened{};
	sn::clock::time_point expires{};
	sn::clock::time_point next_look{};

private:
	endpoint &to_;
	std::atomic<std::size_t> &of_process_;
};

/* Counts as a connection of the endpoint for as long as it lives. */
class ticket
{
public:
	ticket() = default;
	/* line: the queue of the clients that wait for such a place. */
	ticket(std::shared_ptr<endpoint> to, queue &line) noexcept
	    : to_(std::move(to)), line_(&line)
	{
	}
	ticket(ticket &&other) noexcept
	    : to_(std::exchange(other.to_, nullptr)), line_(other.line_),
	      ready_(std::move(other.ready_))
	{
	}
	ticket &operator=(ticket &&other) noexcept
	{
		std::swap(to_, other.to_);
		std::swap(line_, other.line_);
		std::swap(ready_, other.ready_);
		return *this;
	}
	~ticket()
	{
		if (!to_)
			return;
		ready_.reset();                  /* before another can take the place */
		to_->counts.active.fetch_sub(1); /* (c) in queue.hpp */
		line_->place_is_free();
	}

	explicit operator bool() const noexcept { return to_ != nullptr; }
	endpoint *operator->() const noexcept { return to_.get(); }
	const std::shared_ptr<endpoint> &get() const noexcept { return to_; }

	queue &line() const noexcept { return *line_; } /* not of an empty ticket */

	/* The connection that was made ahead; null: there is none. */
	ready_connection *ready() const noexcept { return ready_.get(); }
	void set_ready(std::unique_ptr<ready_connection> made) noexcept
	{
		ready_ = std::move(made);
	}
	std::unique_ptr<ready_connection> take_ready() noexcept { return std::move(ready_); }

private:
	std::shared_ptr<endpoint> to_;
	queue *line_ = nullptr;
	std::unique_ptr<ready_connection> ready_;
};

} // namespace relay

#endif
