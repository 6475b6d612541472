import { describe, expect, it } from 'vitest'
import { fakeWebhook } from '#core/testing'
import { deliver } from '#core/webhooks'

describe('fakeWebhook', () => {
  it('answers 401 to a wrong signature, remembers it, and keeps its answers for the right ones', async () => {
    await using receiver = await fakeWebhook()
    receiver.answer(503)
    const send = (id: string, secret: string) => deliver(receiver.url, { id }, { id, secret })
    await expect(send('forged', 'a guess')).rejects.toMatchObject({ details: { status: 401 } })
    expect((await fetch(receiver.url, { method: 'POST', body: 'words' })).status).toBe(401)
    await expect(send('one', receiver.secret)).rejects.toMatchObject({ details: { status: 503 } })
    expect(await send('one', receiver.secret)).toEqual({ status: 204 })
    expect(receiver.received).toMatchObject([
      { id: 'forged', isValid: false, status: 401, body: { id: 'forged' } },
      { id: '', isValid: false, status: 401, body: 'words' },
      { id: 'one', isValid: true, status: 503 },
      { id: 'one', isValid: true, status: 204 },
    ])
  })

  it('hands out each webhook once, in order, to whoever waits first', async () => {
    await using receiver = await fakeWebhook()
    const send = (id: string) => deliver(receiver.url, {}, { id, secret: receiver.secret })
    const [first, second] = [receiver.next(), receiver.next()]
    for (const id of ['a', 'b', 'c', 'd']) await send(id)
    const ids = [await first, await second, await receiver.next(), await receiver.next()]
    expect(ids.map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd'])
  })

  it('ends what it has left without an answer when it closes, and closes twice as once', async () => {
    const receiver = await fakeWebhook()
    receiver.answer('silence')
    const { url, secret } = receiver
    const delivery = deliver(url, {}, { id: 'one', secret }).catch((error: unknown) => error)
    expect(await receiver.next()).toMatchObject({ isValid: true, status: undefined })
    await receiver.close()
    expect(await delivery).toMatchObject({ code: 'DELIVERY_FAILED' })
    await receiver.close()
  })
})
