// Records every HTTP call of this process below the SDK and viem, which stay as published and do not notice.

import { subscribe } from 'node:diagnostics_channel'

/** Calls in the order they were made: `{method, url, status}`, with status 0 until there is an answer. */
export function recordCalls() {
  const calls = []
  const open = new WeakMap()
  const made = (request, method, url) => {
    const call = { method, url, status: 0 }
    open.set(request, call)
    calls.push(call)
  }
  const answered = (request, status) => {
    const call = open.get(request)
    if (call) call.status = status
  }
  // The SDK's axios goes through node:http, viem's transports through fetch.
  subscribe('http.client.request.start', ({ request }) => {
    made(request, request.method, new URL(request.path, `${request.protocol}//${request.getHeader('host')}`))
  })
  subscribe('http.client.response.finish', ({ request, response }) => answered(request, response.statusCode))
  subscribe('undici:request:create', ({ request }) => {
    made(request, request.method, new URL(request.path, request.origin))
  })
  subscribe('undici:request:headers', ({ request, response }) => answered(request, response.statusCode))
  return calls
}
