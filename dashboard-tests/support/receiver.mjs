// A receiver of webhooks on this machine.

import { once } from 'node:events'
import { createServer } from 'node:http'

export async function receiver() {
  const events = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => (body += part))
    request.on('end', () => {
      events.push({ headers: request.headers, body: JSON.parse(body) })
      response.end('thanks')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${server.address().port}/hook`
  return { url, events, close: () => server.close() }
}
