import { expect, it } from 'vitest'
import { servedPage } from '../support/served-page.ts'
import { describeWith } from '../support/services.ts'

await describeWith('chromium', 'how others connect, in the page', (program) => {
  it('shows what to paste with a fresh key in it, which opens each door until it is ended', async () => {
    const { server, url, page, complaints } = await servedPage(program, 'start.js')
    await page.goto(`${url}/playground/#/connect`)
    const door = (title: string) => page.getByRole('region', { name: title }).locator('pre')
    for (const [title, path] of [
      ['The OpenAI API', '/openai/v1'],
      ['Clients of MCP', '/mcp'],
      ['useChat', '/ai-sdk/chat'],
      ['AG-UI', '/ag-ui'],
      ['A2A', '/.well-known/agent-card.json'],
    ] as const)
      await door(title)
        .filter({ hasText: `${url}${path}` })
        .filter({ hasText: 'ok_…' })
        .waitFor()
    const make = page.getByRole('button', { name: 'Make a key' })
    expect(await make.isDisabled()).toBe(true)
    await page.getByLabel('What the key is for').fill('my editor')
    await make.click()
    const told = page.getByRole('main').getByText('It is shown once')
    await told.waitFor()
    const key = /ok_[\w-]{43}/.exec((await told.textContent()) ?? '')?.[0] ?? ''
    // On a narrow telephone the key goes on in another line.
    const wide = page.viewportSize()
    await page.setViewportSize({ width: 320, height: 700 })
    const right = await told.evaluate((one) => one.getBoundingClientRect().right)
    expect(right).toBeLessThanOrEqual(320)
    if (wide) await page.setViewportSize(wide)
    for (const title of ['The OpenAI API', 'Clients of MCP', 'useChat', 'AG-UI', 'A2A'])
      expect(await door(title).textContent()).toContain(key)

    const models = (with_: string) =>
      fetch(`${url}/openai/v1/models`, { headers: { authorization: `Bearer ${with_}` } })
    expect((await models(key)).status).toBe(200)
    const tools = await fetch(`${url}/mcp`, {
      method: 'POST',
      headers: {
        ...{ authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    // The key opens the tools, and not the agent alone.
    expect(await tools.text()).toContain('get_current_weather')

    // The view comes and goes, and the key stays until the page is loaded anew.
    await page.getByRole('link', { name: 'Memory' }).click()
    await page.getByRole('link', { name: 'Connect' }).click()
    await door('The OpenAI API').filter({ hasText: key }).waitFor()
    await page.reload()
    await door('The OpenAI API').filter({ hasText: 'ok_…' }).waitFor()
    const list = page.getByRole('list', { name: 'Keys' })
    const mine = list.getByRole('listitem').filter({ hasText: 'my editor' })
    expect(await mine.textContent()).not.toContain(key)
    await mine.getByRole('button', { name: 'End' }).click()
    await expect.poll(() => mine.count()).toBe(0)
    expect((await models(key)).status).toBe(401)
    expect(server.output()).not.toContain(key)
    expect(complaints).toEqual([])
  }, 120_000)
})
