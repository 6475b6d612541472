import { describe, expect, it } from 'vitest'
import { testApp } from '#core/testing'

describe('probes', () => {
  it('pass the limits that other requests have, and need no origin', async () => {
    await using app = await testApp({ plugins: [], env: { RATE_LIMIT_PER_MINUTE: '1' } })
    const headers = { Origin: 'https://elsewhere.example' }
    for (let n = 0; n < 20; n++) {
      expect((await fetch(`${app.url}/livez`, { headers })).status).toBe(200)
      const ready = await fetch(`${app.url}/readyz`, { headers })
      expect(ready.status).toBe(200)
      expect(ready.headers.get('cache-control')).toBe('no-store')
      expect(ready.headers.get('access-control-allow-origin')).toBeNull()
    }
    expect((await fetch(app.url)).status).toBe(200)
    expect((await fetch(app.url)).status).toBe(429)
  })
})
