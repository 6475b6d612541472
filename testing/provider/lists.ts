import type { ProviderRequest, ProviderRules } from './answers.ts'

/** How many tokens a model reads where the rules set no window. */
const usualWindow = 131_072

/** Answers the addresses that list models or describe one; undefined where the path is none of them. */
export function listed({ path, headers, model }: ProviderRequest, rules: ProviderRules): unknown {
  const { pathname } = new URL(path, 'http://localhost')
  const models = rules.models ?? ['fake-large', 'fake-small']
  const window = rules.window ?? usualWindow
  const most = rules.maxOutputTokens ?? 8192
  switch (pathname) {
    case '/api/tags':
      return { models: models.map((name) => ({ name, model: name })) }
    case '/api/show':
      return {
        details: { family: 'fake' },
        model_info: { 'general.architecture': 'fake', 'fake.context_length': window },
        capabilities: ['completion', 'tools', 'thinking', 'vision'],
        model,
      }
    case '/v1beta/models':
    case '/v1/models': {
      if (pathname === '/v1beta/models')
        return {
          models: models.map((name) => ({
            name: `models/${name}`,
            displayName: name,
            inputTokenLimit: window,
            outputTokenLimit: most,
            supportedGenerationMethods: ['generateContent', 'countTokens'],
          })),
        }
      if (headers['anthropic-version'])
        return {
          data: models.map((id) => ({ type: 'model', id, display_name: id })),
          has_more: false,
        }
      return {
        object: 'list',
        data: models.map((id) => ({ id, object: 'model', created: 0, owned_by: 'fake' })),
      }
    }
    default:
      return undefined
  }
}
