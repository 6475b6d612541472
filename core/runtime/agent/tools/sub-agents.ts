import { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import type { SubAgent } from '../../../plugin.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import { specOf, type ToolEntry } from './entry.ts'

const input = z.object({
  task: z
    .string()
    .min(1)
    .describe('What to do, with everything that is needed to do it: it knows nothing else.'),
})

/**
 * A sub-agent as a tool, `call_<name>`: the engine again, with a prompt and tools of its own. It counts as a
 * read, because its steps are written down and its writes are marked: run again, it goes on where it was.
 */
export function subAgentTool(name: string, subAgent: SubAgent, record: PluginRecord): ToolEntry {
  const { description, prompt, tools, model } = subAgent
  const toolName = `call_${name}`
  return {
    name: toolName,
    record,
    spec: specOf(toolName, { description, input }),
    effect: 'read',
    // Only where it has read such words itself, which its run says.
    foreign: false,
    input,
    run(args, calling) {
      const { delegate } = calling.site
      if (!delegate)
        throw new RuntimeError(
          'UNAVAILABLE',
          `"${toolName}" needs a model, and there is none here.`,
        )
      const { task } = input.parse(args)
      return delegate({ task, prompt, tools, model }, calling)
    },
  }
}
