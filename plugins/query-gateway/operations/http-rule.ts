import { getOption, hasOption, type DescMethod, type FileRegistry } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'
import { bundledRegistry } from '../descriptors/descriptors.ts'
import { parseTemplate, type Template } from './template.ts'

/** One way to call a method over HTTP. */
export interface HttpRule {
  readonly method: DescMethod
  readonly verb: string
  readonly template: Template
  /** `*`, the name of a field, or empty: the request has no body. */
  readonly body: string
  /** The field that is the whole answer, or empty. */
  readonly responseBody: string
}

/** As `google.api.HttpRule` decodes; the type comes from descriptors, so the compiler cannot know it. */
interface Annotation {
  readonly pattern: { readonly case?: string; readonly value?: string | CustomPattern }
  readonly body: string
  readonly responseBody: string
  readonly additionalBindings: readonly Annotation[]
}
interface CustomPattern {
  readonly kind: string
  readonly path: string
}

const httpOption = bundledRegistry.getExtension('google.api.http')!

/** The HTTP rules of all services, and what of them cannot be served. */
export interface Rules {
  readonly rules: readonly HttpRule[]
  /** What could not be served, a sentence each. */
  readonly faults: readonly string[]
  /** Services with methods of which none is annotated. */
  readonly bare: readonly string[]
}

/** Every annotated binding of every service, additional ones included, in the order of declaration. */
export function readRules(registry: FileRegistry): Rules {
  const rules: HttpRule[] = []
  const faults: string[] = []
  const bare: string[] = []
  for (const service of registry) {
    if (service.kind !== 'service') continue
    const before = rules.length + faults.length
    for (const method of service.methods) {
      if (!hasOption(method, httpOption)) continue
      const first = getOption(method, httpOption) as unknown as Annotation
      for (const annotation of [first, ...first.additionalBindings]) {
        try {
          rules.push(readRule(method, annotation))
        } catch (thrown) {
          if (!(thrown instanceof RuntimeError)) throw thrown
          faults.push(`${service.typeName}/${method.name}: ${thrown.message}`)
        }
      }
    }
    if (service.methods.length > 0 && rules.length + faults.length === before)
      bare.push(service.typeName)
  }
  return { rules, faults, bare }
}

function readRule(method: DescMethod, { pattern, body, responseBody }: Annotation): HttpRule {
  const { value } = pattern
  if (value === undefined) throw new RuntimeError('ROUTE_INVALID', 'The binding has no path.')
  const [verb, path] =
    typeof value === 'string'
      ? [(pattern.case ?? '').toUpperCase(), value]
      : [value.kind.toUpperCase(), value.path]
  const nameless = (name: string) => !method.output.fields.some((field) => field.name === name)
  if (responseBody !== '' && nameless(responseBody))
    throw new RuntimeError('ROUTE_INVALID', `There is no field ${responseBody} in the answer.`)
  return { method, verb, template: parseTemplate(path), body, responseBody }
}
